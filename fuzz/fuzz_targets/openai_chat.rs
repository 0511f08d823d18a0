//! Any bytes as a stream, as a whole reply and as a request: nothing panics, and nothing comes after an end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use watertight::chat::Protocol;

#[path = "../decoder.rs"]
mod decoder;

fuzz_target!(|data: &[u8]| decoder::check(Protocol::OpenaiChat, data));
