#!/bin/bash
# A study on a cluster:  sbatch demos/slurm.sh study.toml
#
# Build the image once, where you may:  apptainer build --fakeroot cffem.sif containers/cffem.def
# Slurm sends SIGUSR1 five minutes before the time is up; cffem keeps what is finished and leaves with exit code 75, and the job
# puts itself back into the queue and goes on from its checkpoints.
#SBATCH --job-name=cffem
#SBATCH --ntasks=64
#SBATCH --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
set -u
study=${1:?usage: sbatch slurm.sh STUDY.toml|STUDY.py}
export OMP_NUM_THREADS=1
# The image carries Open MPI 5, so the launcher must speak PMIx: srun --mpi=list shows it.
srun --mpi=pmix apptainer exec "${CFFEM_IMAGE:-cffem.sif}" cffem run "$study" --out "results-$SLURM_JOB_NAME" --resume
code=$?
if [ "$code" -eq 75 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
