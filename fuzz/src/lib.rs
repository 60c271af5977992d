//! What each fuzz target does with some bytes: it reads them as a file of the program, and holds what was understood
//! or refused against what any reader must keep. The program's tests run the seeds and the findings through the same
//! functions.

use std::io::Cursor;
use std::path::Path;

use headlight::data::tokenizer::Tokenizer;
use headlight::model::GptConfig;
use headlight::model::tensor_file::{TensorFile, TensorView, encode};
use headlight::train::{Settings, SettingsOverride, TrainerState};

/// A function that no bytes may break.
pub type Target = fn(&[u8]);

/// Every target by its name: that of its program, its seeds and its findings.
pub const TARGETS: [(&str, Target); 5] = [
    ("tensor_file", tensor_file),
    ("config_json", config_json),
    ("tokenizer_json", tokenizer_json),
    ("settings_toml", settings_toml),
    ("trainer_state", trainer_state),
];

/// Errors are one line that a terminal can show, however long the file.
fn one_line(error: impl std::fmt::Display) {
    let line = error.to_string();
    assert!(line.len() < 6000 && !line.contains(char::is_control), "no line for a terminal: {line:?}");
}

/// A safetensors file; as it stands, and with the length that its header has before its first zero byte.
pub fn tensor_file(bytes: &[u8]) {
    read_tensors(bytes);
    let header = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (header, data) = bytes.split_at(header);
    read_tensors(&[&(header.len() as u64).to_le_bytes()[..], header, data].concat());
}

fn read_tensors(bytes: &[u8]) {
    let mut file = match TensorFile::new(Cursor::new(bytes)) {
        Ok(file) => file,
        Err(error) => return one_line(error),
    };
    let names: Vec<String> = file.names().map(str::to_string).collect();
    let mut read = Vec::new();
    for name in names {
        let shape = file.shape(&name).map(<[usize]>::to_vec).unwrap_or_default();
        match file.read(&name) {
            Ok(values) => {
                assert_eq!(values.len(), shape.iter().product::<usize>(), "{name:?}");
                assert!(values.iter().all(|value| value.is_finite()), "{name:?}");
                read.push((name, shape, values));
            }
            Err(error) => one_line(error),
        }
    }
    let config = GptConfig::new(2, 1, 1, 1, 1);
    let expected: Vec<(String, Vec<usize>)> = config
        .map(|config| config.parameters().into_iter().map(|parameter| (parameter.name, parameter.shape)).collect())
        .unwrap_or_default();
    match file.read_exactly(&expected, str::to_string, |_| false) {
        Ok(tensors) => assert_eq!(tensors.len(), expected.len()),
        Err(error) => one_line(error),
    }
    // What was understood can be said again.
    let views = read.iter().map(|(name, shape, values)| (name.clone(), TensorView { shape, values }));
    let again = encode(views).and_then(|bytes| {
        let mut again = TensorFile::new(Cursor::new(bytes))?;
        read.iter().map(|(name, ..)| again.read(name)).collect::<Result<Vec<_>, _>>()
    });
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    for ((name, _, values), again) in read.iter().zip(again.unwrap_or_else(|error| panic!("not read back: {error}"))) {
        assert_eq!(bits(values), bits(&again), "{name:?}");
    }
}

/// `config.json` of a model.
pub fn config_json(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match GptConfig::from_json(text) {
        Ok(config) => {
            config.validate().unwrap_or_else(|error| panic!("read, and not valid: {error}"));
            assert!(config.width.is_multiple_of(config.heads) && config.parameter_count() <= 1 << 32);
            assert_eq!(GptConfig::from_json(&config.to_json()), Ok(config));
        }
        Err(error) => one_line(error),
    }
}

/// `tokenizer.json` of a model.
pub fn tokenizer_json(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let tokenizer = match Tokenizer::from_json(text) {
        Ok(tokenizer) => tokenizer,
        Err(error) => return one_line(error),
    };
    let ids: Vec<u32> = (0..).take(tokenizer.vocabulary_size()).collect();
    // A part that means nothing may be nested deeper than a value can be.
    let document = serde_json::from_str::<serde_json::Value>(text).ok();
    for &id in &ids {
        let token = tokenizer.token(id).unwrap_or_else(|| panic!("no token {id}"));
        assert_eq!(tokenizer.id(token), Some(id));
        if let Some(document) = &document {
            assert_eq!(document["model"]["vocab"][token], id, "{token:?}");
        }
    }
    let decoded = tokenizer.decode(&ids);
    let encoded = tokenizer.encode(&decoded).unwrap_or_else(|error| panic!("its own text: {error}"));
    assert_eq!(encoded, ids);
    let again = Tokenizer::from_json(&tokenizer.to_json());
    assert_eq!(again.unwrap_or_else(|error| panic!("not read back: {error}")), tokenizer);
}

/// Settings of a run as a user or a run wrote them.
pub fn settings_toml(bytes: &[u8]) {
    let path = Path::new("settings.toml");
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = match SettingsOverride::parse(text, path) {
        Ok(file) => file,
        Err(error) => return one_line(error),
    };
    let settings = Settings::resolve(file, SettingsOverride::default());
    if settings.validate().is_err() {
        return;
    }
    // Any text may stand in for the vocabulary.
    let _ = settings.model(1 << 20);
    let schedule = settings.schedule();
    for step in [0, settings.warm_up, settings.steps / 2, settings.steps, u64::MAX - 1] {
        assert!(schedule.rate(step).is_finite(), "the rate of step {step}");
    }
    let written = settings.to_toml().unwrap_or_else(|error| panic!("not written: {error}"));
    let again = SettingsOverride::parse(&written, path).unwrap_or_else(|error| panic!("not read back: {error}"));
    assert_eq!(Settings::resolve(again, SettingsOverride::default()), settings);
}

/// `trainer.json` of a run.
pub fn trainer_state(bytes: &[u8]) {
    match TrainerState::parse(bytes, Path::new("trainer.json")) {
        Ok(state) => {
            assert!(state.elapsed_seconds.is_finite() && state.elapsed_seconds >= 0.0);
            let trajectory = Settings::resolve(SettingsOverride::default(), SettingsOverride::default()).trajectory();
            let _ = state.check_settings(&trajectory);
        }
        Err(error) => one_line(error),
    }
}
