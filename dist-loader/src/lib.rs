//! Turns seeds into ready mini-batches, ahead of the trainer.
