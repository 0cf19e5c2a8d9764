// All of kolo but kolo/mpi.h. See README.md for a tour.
#pragma once

#include <kolo/agreement.h>
#include <kolo/checkpoint.h>
#include <kolo/data/mnist.h>
#include <kolo/data/sampler.h>
#include <kolo/device.h>
#include <kolo/error.h>
#include <kolo/init.h>
#include <kolo/memory.h>
#include <kolo/metrics.h>
#include <kolo/modules.h>
#include <kolo/objects.h>
#include <kolo/operations.h>
#include <kolo/optim/adadelta.h>
#include <kolo/optimizer.h>
#include <kolo/parameters.h>
#include <kolo/process_set.h>
#include <kolo/progress.h>
#include <kolo/stop.h>
#include <kolo/summary_writer.h>
#include <kolo/timeline.h>
#include <kolo/types.h>
