//! The power-cut shim: loaded into the program under test with LD_PRELOAD, it records every change of the traced folder
//! and every sync, so that the folder can be rebuilt as a power cut would have left it.
//!
//! In: the libc calls of the traced process; the variables of `power_cut::journal`. Out: the journal. Without the
//! variables every call passes through unchanged. Never here: a silently ignored change. Anything not understood (a
//! shared writable mapping, O_SYNC, links, renames between folders, …) ends the process with a message. A system call
//! that bypasses libc is not seen; the model finds such a change when it compares the folder with the journal.
#![deny(unsafe_op_in_unsafe_fn)]

#[allow(unsafe_code)]
mod hooks;
mod tracer;
