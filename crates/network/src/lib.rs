//! Networks between cells: bridges, VXLAN between nodes, names, and rules that deny by default.
