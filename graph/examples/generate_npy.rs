//! Writes a generated graph as a folder of `.npy` files: `generate_npy DIR`.

use edgecut_graph::datasets::{FakeOptions, export_npy, fake};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let dir: PathBuf = std::env::args_os().nth(1).ok_or("usage: generate_npy DIR")?.into();
    std::fs::create_dir_all(&dir).map_err(|e| format!("create {}: {e}", dir.display()))?;
    let options = FakeOptions { avg_num_nodes: 5000, avg_degree: 20.0, ..FakeOptions::default() };
    export_npy(&fake(&options)?, &dir)?;
    println!("{} nodes in {}", options.avg_num_nodes, dir.display());
    Ok(())
}
