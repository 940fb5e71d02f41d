//! A node's networks, in the kernel: nodes are network namespaces on a wire that each test creates, cells are processes in
//! namespaces of their own.

mod apart;
mod crash;
mod fault;
mod forwarded_ports;
mod ground;
mod join;
mod trace;
