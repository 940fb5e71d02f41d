//! OCI images on a node: verified against their digests and unpacked once, safely.
