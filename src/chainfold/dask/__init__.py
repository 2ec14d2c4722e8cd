"""More than one machine: training, evaluation, encoding and tagging on a Dask cluster, with the same bits.

    failure        errors of tasks as data
    warm           kernels, compiled once a machine
    chains         what a worker keeps of the chains that it reads
    sums_of_runs   sums of stretches as they travel
    tasks          the tasks, pure functions
    connection     clients, schedulers and workers
    rounds         tasks placed, repeated and limited in time
    passes         the passes over a chain that training makes

Needs the extra `dask`. Begin reading with `passes`.
"""
