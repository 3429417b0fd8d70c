//! What is started, word for word, and what is understood.
