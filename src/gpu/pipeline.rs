//! Compute pipelines, made once per distinct shader text.

use std::collections::HashMap;
use std::sync::Arc;

use super::device::{Gpu, GpuError, one_line};
use super::reflect::{Access, Reflection, reflect};
use super::shader::{ShaderError, ShaderSource};

/// A compiled shader with the layout that its own text declares.
pub struct Pipeline {
    pub raw: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
    pub reflection: Reflection,
}

/// Pipelines by assembled text: two launches that specialise a kernel alike share one.
#[derive(Default)]
pub struct Pipelines {
    cache: HashMap<String, Arc<Pipeline>>,
}

/// A shader that does not stand, or a device that will not take it.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    #[error(transparent)]
    Shader(#[from] ShaderError),
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl Pipelines {
    /// The pipeline of a shader text, compiled now if it is new.
    ///
    /// # Errors
    /// The shader's fault with file and line, or the device's reason for refusing it.
    pub async fn get(&mut self, gpu: &Gpu, file: &str, source: &ShaderSource) -> Result<Arc<Pipeline>, PipelineError> {
        if let Some(pipeline) = self.cache.get(&source.text) {
            return Ok(pipeline.clone());
        }
        let pipeline = Arc::new(compile(gpu, file, source).await?);
        self.cache.insert(source.text.clone(), pipeline.clone());
        Ok(pipeline)
    }

    /// How many distinct pipelines exist.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }
}

async fn compile(gpu: &Gpu, file: &str, source: &ShaderSource) -> Result<Pipeline, PipelineError> {
    let reflection = reflect(file, source)?;
    let validation = gpu.device.push_error_scope(wgpu::ErrorFilter::Validation);
    let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some(file),
        source: wgpu::ShaderSource::Wgsl(source.text.as_str().into()),
    });
    let entries: Vec<wgpu::BindGroupLayoutEntry> = std::iter::once(wgpu::BufferBindingType::Uniform)
        .chain(
            reflection
                .bindings
                .iter()
                .map(|binding| wgpu::BufferBindingType::Storage { read_only: binding.access == Access::Read }),
        )
        .zip(0..)
        .map(|(ty, binding)| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
            count: None,
        })
        .collect();
    let layout =
        gpu.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: Some(file), entries: &entries });
    let pipeline_layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: Some(file),
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let raw = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(file),
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: Default::default(),
        cache: None,
    });
    match validation.pop().await {
        Some(error) => Err(GpuError::Rejected { label: file.to_string(), reason: one_line(&error.to_string()) }.into()),
        None => Ok(Pipeline { raw, layout, reflection }),
    }
}
