//! Builds the helper program in `launcher/` with the same compiler, for the same target, as a separate static program.
//! It is embedded into this crate, so that embedders need not install anything.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[expect(clippy::disallowed_methods, reason = "cargo passes a build script its settings in the environment")]
fn main() {
    println!("cargo::rerun-if-changed=launcher");
    println!("cargo::rerun-if-changed=src/confinement.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let target = std::env::var("TARGET").expect("cargo names the target");
    if !target.contains("linux") {
        return;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names the folder")).join("launcher");
    // A dynamic helper also works, only more slowly: its libraries are loaded before it leaves the host's root.
    let whole = compile(&target, &out, &["-Ctarget-feature=+crt-static", "-Crelocation-model=static"]);
    if whole.status.success() {
        return;
    }
    let dynamic = compile(&target, &out, &[]);
    assert!(
        dynamic.status.success(),
        "the sandbox's helper program could not be built:\n{}",
        String::from_utf8_lossy(&dynamic.stderr)
    );
    println!(
        "cargo::warning=the sandbox's helper is linked dynamically: no static C library here (package glibc-static)"
    );
}

#[expect(clippy::disallowed_methods, reason = "a build script starts the compiler itself")]
fn compile(target: &str, out: &Path, flags: &[&str]) -> Output {
    let rustc = std::env::var_os("RUSTC").expect("cargo names the compiler");
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--crate-type", "bin", "--crate-name", "loopwright_launcher"]);
    command.args(["-Copt-level=s", "-Cpanic=abort", "-Cstrip=symbols", "-Ccodegen-units=1", "--target", target]);
    command.args(flags);
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        command.arg(format!("-Clinker={}", linker.to_string_lossy()));
    }
    command.arg("launcher/main.rs").arg("-o").arg(out);
    command.output().expect("the compiler that runs this script can be started")
}
