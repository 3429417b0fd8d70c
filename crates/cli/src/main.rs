//! The `loopwright` command.

fn main() {
    loopwright::agents::main_if_asked();
}
