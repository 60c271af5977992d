#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headlight_fuzz::config_json(bytes));
