//! How to talk to a provider, without any I/O: bytes in, values out.

pub mod sse;
