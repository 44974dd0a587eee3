//! A directory that is made of copies has what they hold.
