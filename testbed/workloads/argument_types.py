"""Types of values that become one argument of a tool's command line, without separators in them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from testbed.topology.names import device_name

# As long as the kernel takes it (TCP_CA_NAME_MAX). No comma: netperf splits at it.
Congestion = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,14}$")]
DeviceName = Annotated[str, AfterValidator(device_name)]
Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9:][A-Za-z0-9:.%_-]{0,252}$")]
