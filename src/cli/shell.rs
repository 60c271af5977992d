//! Completions and manual pages, made from the same definitions as the parser.

use std::io::Write;
use std::path::PathBuf;

use clap::CommandFactory;

use super::Outcome;

#[derive(clap::Args)]
pub struct Completions {
    /// The shell to print them for
    shell: clap_complete::Shell,
}

#[derive(clap::Args)]
pub struct Man {
    /// Write headlight.1 and a page for each command into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub fn completions(arguments: &Completions) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Arguments::command(), "headlight", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(Outcome::Fine)
}

pub fn man(arguments: &Man) -> anyhow::Result<Outcome> {
    let command = super::Arguments::command();
    match &arguments.out {
        Some(directory) => {
            std::fs::create_dir_all(directory)
                .and_then(|()| clap_mangen::generate_to(command, directory))
                .map_err(|error| anyhow::anyhow!("cannot write manual pages to {}: {error}", directory.display()))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            std::io::stdout().write_all(&page)?;
        }
    }
    Ok(Outcome::Fine)
}
