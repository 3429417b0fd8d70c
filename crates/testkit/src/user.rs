//! The operating system's user that tests run as, found without the code under test.

/// The name of this process's user, as `id -un` prints it.
///
/// # Panics
/// If `id` cannot be run.
#[must_use]
pub fn name() -> String {
    let id = std::process::Command::new("id").arg("-un").output().expect("`id` runs");
    String::from_utf8(id.stdout).expect("a name is text").trim().to_owned()
}
