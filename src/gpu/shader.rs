//! Assembling a shader: shared pieces, generated text and the file, with named constants filled in.
//!
//! Constants are specialised as text and not by `override`: naga rejects arrays in function scope whose size is an
//! override, and reflects an overridden workgroup size as 1.

/// A named module-scope constant and the value a launch gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    pub name: &'static str,
    pub value: ConstantValue,
}

/// The values a constant can take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConstantValue {
    U32(u32),
    Bool(bool),
}

impl Constant {
    pub const fn u32(name: &'static str, value: u32) -> Self {
        Self { name, value: ConstantValue::U32(value) }
    }

    pub const fn bool(name: &'static str, value: bool) -> Self {
        Self { name, value: ConstantValue::Bool(value) }
    }
}

impl std::fmt::Display for ConstantValue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::U32(value) => write!(formatter, "{value}u"),
            Self::Bool(value) => write!(formatter, "{value}"),
        }
    }
}

/// A shared part that several shader files begin with.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its file under `shaders/`.
    pub file: &'static str,
    pub text: &'static str,
}

/// Who compiles the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// naga, which knows subgroup operations without being told and rejects `enable subgroups;`.
    Native,
    /// A browser's compiler, which needs the `enable` line.
    WebGpu,
}

/// A fault in a shader's text, at its own file and line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShaderError {
    #[error("{file}: no constant named {name}; a `const {name} ...;` line at module scope is what would be replaced")]
    UnknownConstant { file: String, name: String },
    #[error("{file}:{line}: {message}")]
    Rejected { file: String, line: u32, message: String },
    #[error("{file}: {message}")]
    Malformed { file: String, message: String },
}

/// The assembled text of one specialisation, and where each part of it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShaderSource {
    pub text: String,
    /// (first line of the part in `text`, counted from 1; its file).
    parts: Vec<(u32, String)>,
}

impl ShaderSource {
    /// Joins `pieces`, `generated` text and the file, and gives each constant its value.
    ///
    /// # Errors
    /// [`ShaderError::UnknownConstant`] for a constant that no part declares at module scope.
    pub fn assemble(
        file: &str,
        text: &str,
        pieces: &[&Piece],
        generated: &str,
        constants: &[Constant],
        uses_subgroups: bool,
        target: Target,
    ) -> Result<Self, ShaderError> {
        let mut source = Self { text: String::new(), parts: Vec::new() };
        if uses_subgroups && target == Target::WebGpu {
            source.append("enables", "enable subgroups;\n");
        }
        for piece in pieces {
            source.append(piece.file, piece.text);
        }
        if !generated.is_empty() {
            source.append(&format!("{file} (generated)"), generated);
        }
        source.append(file, text);
        for constant in constants {
            source.text = replace_constant(&source.text, constant)
                .ok_or_else(|| ShaderError::UnknownConstant { file: file.into(), name: constant.name.into() })?;
        }
        Ok(source)
    }

    fn append(&mut self, file: &str, text: &str) {
        self.parts.push((self.text.lines().count() as u32 + 1, file.to_string()));
        self.text.push_str(text);
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// The file and its own line that a line of the assembled text came from. Lines count from 1.
    pub fn origin(&self, line: u32) -> (&str, u32) {
        let part = self.parts.iter().rev().find(|(first, _)| *first <= line);
        part.map_or(("", line), |(first, file)| (file, line - first + 1))
    }

    /// Parses and validates the text with naga.
    ///
    /// # Errors
    /// [`ShaderError::Rejected`] with the file and line of the fault.
    pub fn validate(&self) -> Result<(wgpu::naga::Module, wgpu::naga::valid::ModuleInfo), ShaderError> {
        use wgpu::naga;
        let rejected = |line: Option<u32>, message: String| {
            let (file, line) = self.origin(line.unwrap_or(1));
            ShaderError::Rejected { file: file.into(), line, message: super::device::one_line(&message) }
        };
        let module = naga::front::wgsl::parse_str(&self.text).map_err(|error| {
            rejected(error.location(&self.text).map(|at| at.line_number), error.message().to_string())
        })?;
        let capabilities = naga::valid::Capabilities::SUBGROUP;
        let info = naga::valid::Validator::new(naga::valid::ValidationFlags::all(), capabilities)
            .validate(&module)
            .map_err(|error| {
                let line = error.location(&self.text).map(|at| at.line_number);
                let mut message = error.to_string();
                let mut source = std::error::Error::source(error.as_inner());
                while let Some(cause) = source {
                    message = format!("{message}: {cause}");
                    source = cause.source();
                }
                rejected(line, message)
            })?;
        Ok((module, info))
    }
}

/// Replaces the right-hand side of `const NAME ... = ...;` at the start of a line; `None` where there is no such line.
fn replace_constant(text: &str, constant: &Constant) -> Option<String> {
    let mut found = false;
    let mut replaced = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let declares = line.strip_prefix("const ").and_then(|rest| rest.strip_prefix(constant.name));
        let declares = declares.is_some_and(|rest| rest.starts_with([':', ' ', '=']));
        match (declares, line.find('='), line.find(';')) {
            (true, Some(equals), Some(end)) if equals < end => {
                found = true;
                replaced.push_str(&line[..=equals]);
                replaced.push_str(&format!(" {}", constant.value));
                replaced.push_str(&line[end..]);
            }
            _ => replaced.push_str(line),
        }
    }
    found.then_some(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: Piece = Piece { file: "common/zero.wgsl", text: "const ZERO: f32 = 0.0;\nconst TWO: u32 = 2u;\n" };
    const FILE: &str = "const TILE: u32 = 8u; // rows\n@compute @workgroup_size(TILE) fn main() {}\n";

    fn assemble(text: &str, constants: &[Constant]) -> Result<ShaderSource, ShaderError> {
        ShaderSource::assemble("a.wgsl", text, &[&PIECE], "", constants, false, Target::Native)
    }

    #[test]
    fn constants_are_replaced_by_name_and_the_rest_of_the_line_stays() {
        let source = assemble(FILE, &[Constant::u32("TILE", 16)]).unwrap();
        assert!(source.text.contains("const TILE: u32 = 16u; // rows"));
        let (module, _) = source.validate().unwrap();
        assert_eq!(module.entry_points[0].workgroup_size, [16, 1, 1]);
    }

    #[test]
    fn a_constant_that_no_part_declares_is_a_typed_error() {
        let error = assemble(FILE, &[Constant::u32("TIL", 16)]).unwrap_err();
        assert_eq!(error, ShaderError::UnknownConstant { file: "a.wgsl".into(), name: "TIL".into() });
    }

    #[test]
    fn a_fault_is_reported_at_the_line_of_its_own_file() {
        let error = assemble("const TILE: u32 = 8u;\nfn broken( {}\n", &[]).unwrap().validate().unwrap_err();
        assert!(matches!(&error, ShaderError::Rejected { file, line: 2, .. } if file == "a.wgsl"), "{error}");
    }

    #[test]
    fn only_a_browser_is_told_to_enable_subgroups() {
        for (target, expected) in [(Target::Native, false), (Target::WebGpu, true)] {
            let source = ShaderSource::assemble("a.wgsl", FILE, &[], "", &[], true, target).unwrap();
            assert_eq!(source.text.starts_with("enable subgroups;"), expected);
        }
    }
}
