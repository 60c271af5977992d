//! `headlight memory --ledger`: every buffer of a run, and every value that lives in it.

use std::fmt::Write;

use crate::tape::{Tape, Tenant};
use crate::train::memory::Footprint;

/// Every allocation with its bytes and category; below it what lives there, by shape, bytes and launches.
pub fn print(context_length: usize, attention: &str, footprint: &Footprint) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, context_length, attention, footprint);
    text
}

fn write(text: &mut String, context_length: usize, attention: &str, footprint: &Footprint) -> std::fmt::Result {
    let tape = &footprint.tape;
    let allocations = &footprint.allocations;
    writeln!(text, "ledger of T={context_length}, {attention}: {} buffers", allocations.len())?;
    for segment in &tape.segments {
        writeln!(text, "  segment {}: launches 0 to {}", segment.name, segment.launches.len().saturating_sub(1))?;
    }
    let mut tenants: Vec<Vec<&Tenant>> = vec![Vec::new(); tape.buffers.len()];
    for tenant in &tape.tenants {
        if let Some(of_buffer) = tenants.get_mut(tenant.buffer) {
            of_buffer.push(tenant);
        }
    }
    writeln!(text, "{:>6}  {:>14}  {:<17}  value, shape, bytes of it, launches", "buffer", "bytes", "category")?;
    for (number, allocation) in allocations.iter().enumerate() {
        let own: &[&Tenant] = tenants.get(number).map_or(&[], |own| own);
        write!(text, "{number:>6}  {:>14}  {:<17}  ", allocation.bytes, allocation.category.name())?;
        match own {
            [] => writeln!(text, "{}", allocation.name)?,
            [only] => writeln!(text, "{}", describe(tape, only))?,
            several => {
                writeln!(text, "{} values in turn", several.len())?;
                for tenant in several {
                    writeln!(text, "{:43}{}", "", describe(tape, tenant))?;
                }
            }
        }
    }
    Ok(())
}

fn describe(tape: &Tape, tenant: &Tenant) -> String {
    let Tenant { name, shape, elements, lifetime, .. } = tenant;
    let launches = match lifetime {
        None => "kept".into(),
        Some(lifetime) => {
            let segment = tape.segments.get(lifetime.segment).map_or("", |segment| segment.name.as_str());
            format!("{segment} {} to {}", lifetime.first, lifetime.last)
        }
    };
    format!("{name} {shape:?}, {}, {launches}", elements.saturating_mul(4))
}
