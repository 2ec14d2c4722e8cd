"""Learning from rows as they arrive: one pass, in memory that does not depend on how many come.

weights       hashed attributes' weights, and their sparse steps
window        the share of a batch in the gradient of its sequence, and its best labels before it is learnt from
trainer       blocks in, batches learnt from
prequential   how well each batch was tagged before that
arriving      files, pipes and chains to blocks
journal       what a pipe has given since the last saved state
run           all of it, such that a kill costs little
"""
