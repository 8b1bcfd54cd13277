//! The texts of the corpus are built into the program, so a change of them must build it again.

fn main() {
    println!("cargo::rerun-if-changed=corpus");
}
