//! What tests stand on: a hermetic environment, real repositories, real databases. Never shipped.
