//! Cells: runc under conmon, with control groups, devices, services, logs and commands.
