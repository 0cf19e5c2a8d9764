#!/bin/bash
# A shell on a node of a job, in which srun and kolo run use all of the job's nodes.
#   slurm/interactive.sh [OPTIONS OF salloc]       after those of KOLO_INTERACTIVE in site.env
# shellcheck source=site.env
. "${KOLO_SLURM:-$(dirname "${BASH_SOURCE[0]}")}/site.env"
# shellcheck disable=SC2086
exec salloc $KOLO_INTERACTIVE "$@" srun --interactive --preserve-env --pty "${SHELL:-/bin/bash}"
