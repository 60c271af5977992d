//! What a shader's text declares, read by naga, so that bindings, workgroup sizes and parameter layouts are never typed
//! a second time in Rust.

use wgpu::naga::{AddressSpace, Module, ScalarKind, StorageAccess, TypeInner, VectorSize, proc::Layouter};

use super::shader::{ShaderError, ShaderSource};

/// How a shader uses a storage binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    ReadWrite,
}

/// A storage binding of a shader. `@binding(0)` is always the uniform `parameters`, and is not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShaderBinding {
    pub name: String,
    pub access: Access,
    /// Bytes of one element: 4 for scalars, 16 for vec4.
    pub element_bytes: u32,
    pub real: bool,
}

/// The kinds of fields a parameter struct may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    U32,
    F32,
    /// `vec4<u32>`
    Vec4U32,
}

/// A field of a parameter struct: its name, its kind, its byte offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterField {
    pub name: String,
    pub kind: ParameterKind,
    pub offset: u32,
}

/// All that a launch needs to know of a shader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reflection {
    pub workgroup_size: [u32; 3],
    pub workgroup_bytes: u32,
    pub parameters: Vec<ParameterField>,
    /// In the order of their binding numbers, which run from 1 without gaps.
    pub bindings: Vec<ShaderBinding>,
}

/// Reads bindings, parameters and workgroup size off a validated shader with the one entry point `main`.
///
/// # Errors
/// [`ShaderError::Malformed`] where the shader departs from what every kernel here keeps to: group 0, a uniform
/// `Params` at binding 0, storage arrays of f32, u32 or vec4 from binding 1 on.
pub fn reflect(file: &str, source: &ShaderSource) -> Result<Reflection, ShaderError> {
    let (module, _) = source.validate()?;
    let malformed = |message: String| ShaderError::Malformed { file: file.into(), message };
    let [entry] = module.entry_points.as_slice() else {
        return Err(malformed(format!("has {} entry points, needs one", module.entry_points.len())));
    };
    let mut layouter = Layouter::default();
    layouter.update(module.to_ctx()).map_err(|error| malformed(error.to_string()))?;

    let mut parameters = None;
    let mut bindings: Vec<(u32, ShaderBinding)> = Vec::new();
    let mut workgroup_bytes = 0;
    for (_, variable) in module.global_variables.iter() {
        let name = variable.name.clone().unwrap_or_default();
        match (variable.space, &variable.binding) {
            (AddressSpace::WorkGroup, _) => workgroup_bytes += layouter[variable.ty].size,
            (AddressSpace::Uniform, Some(at)) if at.group == 0 && at.binding == 0 => {
                parameters = Some(fields(&module, variable.ty).map_err(&malformed)?);
            }
            (AddressSpace::Storage { access }, Some(at)) if at.group == 0 && at.binding > 0 => {
                let access = if access.contains(StorageAccess::STORE) { Access::ReadWrite } else { Access::Read };
                let (element_bytes, real) = element(&module, variable.ty).map_err(&malformed)?;
                bindings.push((at.binding, ShaderBinding { name, access, element_bytes, real }));
            }
            (AddressSpace::Private, _) => {}
            _ => return Err(malformed(format!("variable {name} lies outside the bindings a kernel may declare"))),
        }
    }
    bindings.sort_by_key(|(binding, _)| *binding);
    if bindings.iter().zip(1..).any(|((binding, _), expected)| *binding != expected) {
        return Err(malformed("storage bindings must be numbered from 1 without gaps".into()));
    }
    Ok(Reflection {
        workgroup_size: entry.workgroup_size,
        workgroup_bytes,
        parameters: parameters.ok_or_else(|| malformed("no uniform parameters at @binding(0)".into()))?,
        bindings: bindings.into_iter().map(|(_, binding)| binding).collect(),
    })
}

fn fields(module: &Module, ty: wgpu::naga::Handle<wgpu::naga::Type>) -> Result<Vec<ParameterField>, String> {
    let TypeInner::Struct { members, .. } = &module.types[ty].inner else {
        return Err("the uniform at @binding(0) must be a struct".into());
    };
    members
        .iter()
        .map(|member| {
            let name = member.name.clone().unwrap_or_default();
            let kind = match module.types[member.ty].inner {
                TypeInner::Scalar(scalar) if scalar.kind == ScalarKind::Uint => ParameterKind::U32,
                TypeInner::Scalar(scalar) if scalar.kind == ScalarKind::Float => ParameterKind::F32,
                TypeInner::Vector { size: VectorSize::Quad, scalar } if scalar.kind == ScalarKind::Uint => {
                    ParameterKind::Vec4U32
                }
                _ => return Err(format!("parameter {name} must be u32, f32 or vec4<u32>")),
            };
            Ok(ParameterField { name, kind, offset: member.offset })
        })
        .collect()
}

fn element(module: &Module, ty: wgpu::naga::Handle<wgpu::naga::Type>) -> Result<(u32, bool), String> {
    let TypeInner::Array { base, .. } = module.types[ty].inner else {
        return Err("a storage binding must be an array".into());
    };
    match module.types[base].inner {
        TypeInner::Scalar(scalar) => Ok((u32::from(scalar.width), scalar.kind == ScalarKind::Float)),
        TypeInner::Vector { size: VectorSize::Quad, scalar } => {
            Ok((4 * u32::from(scalar.width), scalar.kind == ScalarKind::Float))
        }
        _ => Err("a storage binding must hold scalars or vec4".into()),
    }
}
