//! What tenants leave behind: an allocation's disk and the memory of devices, how they are made, wiped, and looked at.
