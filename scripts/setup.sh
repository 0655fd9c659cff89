#!/bin/sh
# Sets up what the project needs, as far as this machine lets it: Debian packages, a virtual
# environment in .venv, the compiled BPF program. Usage: scripts/setup.sh run|test|vm
#
# Quick when it has done the same before. Without root or apt it says, one line each, what is
# missing, and goes on with the rest. PYTHON names the interpreter (3.11 or later).
set -eu
cd "$(dirname "$0")/.."

wanted=${1:-run}
case $wanted in
run) sets='run' ;;
test) sets='run test' ;;
vm) sets='run test vm' ;;
*) echo "usage: $0 run|test|vm" >&2 && exit 2 ;;
esac
python=${PYTHON:-python3}
updated=

main() {
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
        say "Python 3.11 or later is needed: apt-get install python3, or set PYTHON"
        exit 3
    }
    content=$(cat pyproject.toml scripts/packages scripts/setup.sh | sha256sum)
    if ! done_before; then
        debian_packages must
        debian_packages may
        python_package
        echo "$content" >".venv/set-up-$wanted"
    fi
    .venv/bin/python -m testbed.evidence.compile >/dev/null || say "packet sizes will be collected without BPF"
}

say() { echo "set-up: $*" >&2; }

# A larger set contains the smaller ones.
done_before() {
    for set in vm test run; do
        [ "$(cat ".venv/set-up-$set" 2>/dev/null)" != "$content" ] || return 0
        [ "$set" != "$wanted" ] || return 1
    done
}

# Installs what is missing of the packages whose need is $1 (must, may), or says what is missing.
debian_packages() {
    need=$1
    # shellcheck disable=SC2046 # a list of package names
    set -- $(missing "$need")
    [ $# != 0 ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        for package; do say "missing, and only root with apt can install it: $package"; done
        return 0
    fi
    say "installing $*"
    [ -n "$updated" ] || apt_get update
    updated=yes
    if [ "$need" = must ]; then
        apt_get install "$@"
    elif ! apt_get install "$@" 2>/dev/null; then
        for package; do optional_package "$package"; done
    fi
    # The package netperf starts a server on every address of the machine; a lab starts its own.
    case " $* " in
    *' netperf '*) [ ! -d /run/systemd/system ] || systemctl --quiet disable --now netperf.service || true ;;
    esac
}

optional_package() {
    apt_get install "$1" 2>/dev/null || from_non_free "$1" 2>/dev/null ||
        say "warning: cannot install $1, what needs it will say so"
}

missing() {
    grep -v '^#' scripts/packages | while read -r set need what package; do
        [ "$need" = "$1" ] || continue
        case " $sets " in *" $set "*) ;; *) continue ;; esac
        any_is_there "$what" || echo "$package"
    done | sort -u
}

any_is_there() {
    for each in $(echo "$1" | tr , ' '); do
        ! is_there "$each" || return 0
    done
    return 1
}

is_there() {
    case $1 in
    lib:*) /sbin/ldconfig -p | grep -q "^[[:space:]]${1#lib:} " ;;
    file:*) [ -e "${1#file:}" ] ;;
    python:*) "$python" -c "import ${1#python:}" 2>/dev/null ;;
    *) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null ;;
    esac
}

apt_get() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
        --no-install-recommends "$@" >/dev/null
}

# Debian has netperf in non-free before release 13. Mirror and suite are those that apt is
# configured for; the list is ours alone, so that the machine's own sources stay as they are.
from_non_free() (
    private=$(mktemp -d)
    trap 'rm -rf "$private"' EXIT
    chmod 755 "$private"
    mkdir "$private/lists"
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    # shellcheck disable=SC2016 # apt's own format, not ours
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Component: main' |
        awk -v suite="$suite" '$2 == suite && !seen[$1]++ { print "deb", $1, $2, "non-free" }' \
            >"$private/sources.list"
    [ -s "$private/sources.list" ] || return 1
    package=$1
    set -- -o Dir::Etc::sourcelist="$private/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$private/lists/" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    apt_get "$@" update && apt_get "$@" install "$package"
)

python_package() {
    say "installing the Python package into .venv"
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    extras=
    [ "$wanted" = run ] || extras='[dev]'
    # What is imported is compiled when it is; compiling all of it now would take longer than the download.
    .venv/bin/python -m pip install -qq --disable-pip-version-check --no-compile -e ".$extras"
}

main
