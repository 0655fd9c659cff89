#!/bin/sh
# Sets up what the project needs, as far as this machine lets it: Debian packages, a virtual
# environment in .venv, the compiled BPF program.
#
#   scripts/setup.sh run|test|vm|fresh    set it up (fresh: packages only)
#   scripts/setup.sh list run|test|vm     print the rows of scripts/packages that hold for this release
#                                         (RELEASE=12: for that one of Debian): need, what, package
#   scripts/setup.sh check run|test|vm    print each row of scripts/packages that does not hold here:
#                                         what it names is missing, or apt has no such package
#
# Quick when it has done the same before. Without root or apt it says what is missing, and goes on
# with the rest. PYTHON names the interpreter (3.11 or later). Exit status: 3 where it cannot go on.
set -eu
cd "$(dirname "$0")/.."

usage() { echo "usage: $0 [list|check] run|test|vm|fresh" >&2 && exit 2; }
verb=set_up
case ${1:-} in list | check) verb=$1 && shift ;; esac
wanted=${1:-run}
case $wanted in
run) sets='run' ;;
test) sets='run test' ;;
vm) sets='run test vm' ;;
fresh) sets='fresh' ;;
*) usage ;;
esac
python=${PYTHON:-python3}
updated=

set_up() {
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
        say "Python 3.11 or later is needed: apt-get install python3, or set PYTHON"
        exit 3
    }
    content=$(cat pyproject.toml scripts/packages scripts/setup.sh | sha256sum)
    done_before packages || all_packages
    [ "$wanted" != fresh ] || return 0
    done_before python || python_package
    if can_install; then mark packages; fi
    mark python
    .venv/bin/python -m testbed.evidence.compile >/dev/null || say "packet sizes will be collected without BPF"
}

say() { echo "set-up: $*" >&2; }

# A larger set contains the smaller ones.
done_before() {
    for set in vm test run; do
        [ "$(cat ".venv/set-up-$set-$1" 2>/dev/null)" != "$content" ] || return 0
        [ "$set" != "$wanted" ] || return 1
    done
    return 1
}

mark() { echo "$content" >".venv/set-up-$wanted-$1"; }

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# Installs what is missing, or says what is.
all_packages() {
    if can_install; then
        # The bare machine's packages come from the archive that apt's lists name.
        [ "$wanted" != fresh ] || has_lists || update
        # shellcheck disable=SC2046 # a list of package names
        install must $(missing must)
        # shellcheck disable=SC2046
        install may $(missing may)
        return
    fi
    lacking=$(missing must | tr '\n' ' ')
    [ -n "$lacking" ] || return 0
    say "not here, and only root with apt can install it (sudo make set-up-$wanted): $lacking"
    case " $lacking" in
    *' python3-venv '* | *' mmdebstrap '*)
        say "nothing was installed"
        exit 3
        ;;
    esac
    say "what works without it: docs/howto/without-root.md"
}

install() { # NEED PACKAGE...
    need=$1
    shift
    [ $# != 0 ] || return 0
    say "installing $*"
    [ -n "$updated" ] || update
    if [ "$need" = must ]; then
        apt_get install "$@" || fail "apt-get could not install all of them (its reason stands above)"
    else
        for package; do
            case $package in
            non-free/*) non_free apt_get install "${package#*/}" 2>/dev/null ;;
            *) apt_get install "$package" 2>/dev/null ;;
            esac || say "warning: cannot install $package, what needs it will say so"
        done
    fi
    # The package netperf starts a server on every address of the machine; a lab starts its own.
    case " $*" in
    *netperf*) [ ! -d /run/systemd/system ] || systemctl --quiet disable --now netperf.service || true ;;
    esac
}

update() {
    updated=yes
    apt_get update || fail "apt-get update failed (its reason stands above)"
    # It answers 0 where no mirror could be reached.
    has_lists || fail "apt has no package lists: its sources name no archive that can be reached (/etc/apt)"
}

has_lists() { [ -n "$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages')" ]; }

fail() {
    say "$*"
    exit 1
}

# The rows that hold for this machine and the wanted sets: need, what, package.
list() {
    release=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_ID:-}") || true
    awk -v sets=" $sets " -v release="${RELEASE:-${release:-999}}" '
        /^[^#]/ && index(sets, " " $1 " ") {
            if ($5 ~ /^\.\./ && release > 0 + substr($5, 3)) next
            if ($5 ~ /\.\.$/ && release < 0 + $5) next
            print $2, $3, $4
        }' scripts/packages
}

missing() { # NEED
    list | while read -r need what package; do
        [ "$need" != "$1" ] || is_there "$what" || echo "$package"
    done | sort -u
}

is_there() {
    case $1 in
    lib:*) /sbin/ldconfig -p | grep -q "^[[:space:]]${1#lib:} " ;;
    file:*) [ -e "${1#file:}" ] ;;
    python:*) "$python" -c "import ${1#python:}" 2>/dev/null ;;
    *) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null ;;
    esac
}

check() {
    has_lists || fail "apt has no package lists: apt-get update, then again"
    wrong=$(list | while read -r _ what package; do
        is_there "$what" || echo "scripts/packages: $what is not here"
        case $package in
        non-free/*) non_free apt-cache show "${package#*/}" ;;
        *) apt-cache show "$package" ;;
        esac >/dev/null 2>&1 || echo "scripts/packages: apt has no package $package"
    done)
    [ -z "$wrong" ] || { echo "$wrong" && exit 1; }
}

apt_get() {
    # shellcheck disable=SC2086 # options
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
        --no-install-recommends ${apt_options:-} "$@" >/dev/null
}

# Runs apt_get or apt-cache with the archive's component non-free. Mirror and suite are those that
# apt is configured for; the list is ours alone, so that the machine's own sources stay as they are.
non_free() (
    private=$(mktemp -d)
    trap 'rm -rf "$private"' EXIT
    chmod 755 "$private"
    mkdir "$private/lists"
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    # shellcheck disable=SC2016 # apt's own format, not ours
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Component: main' |
        awk -v suite="$suite" '$2 == suite && !seen[$1]++ { print "deb", $1, $2, "non-free" }' \
            >"$private/sources.list"
    [ -s "$private/sources.list" ] || exit 1
    apt_options="-o Dir::Etc::sourcelist=$private/sources.list -o Dir::Etc::sourceparts=/dev/null"
    apt_options="$apt_options -o Dir::State::lists=$private/lists/"
    apt_options="$apt_options -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache="
    apt_get update
    command=$1
    shift
    # shellcheck disable=SC2086 # options
    case $command in
    apt_get) apt_get "$@" ;;
    *) "$command" $apt_options "$@" ;;
    esac
)

python_package() {
    say "installing the Python package into .venv"
    if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
        "$python" -m venv .venv || { rm -rf .venv && fail "$python cannot make a virtual environment"; }
    fi
    if [ ! -w .venv ]; then
        say ".venv belongs to $(stat -c %U .venv): sudo make set-up-$wanted hands it to you"
        exit 3
    fi
    extras=
    [ "$wanted" = run ] || extras='[dev]'
    # What is imported is compiled when it is; compiling all of it now would take longer than the download.
    .venv/bin/python -m pip install -qq --disable-pip-version-check --no-compile -e ".$extras" ||
        fail "pip could not install all of it (its reason stands above)"
}

$verb
