//! A leader that writes, deletes, collects and frees between any two steps of a backup; and what a backup on
//! disk is worth when parts of it are not what was written.

mod damage;
mod leader;
mod model;
