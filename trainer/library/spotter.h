/* libspotter: checkpoints that cannot tear, written behind the training's back; the interruption
 * notice; progress. The C API, stable: what a program compiled today uses stays as it is.
 *
 *   spotter_run* run = spotter_open(NULL);
 *   spotter_checkpoint* old = NULL;
 *   if (!run || spotter_restore(run, &old) != 0) die(spotter_error());
 *   if (old) { ... spotter_checkpoint_part(old, "model", &data, &size) ...; }
 *   spotter_checkpoint_free(old);
 *   for (...) {
 *     ...train a step...
 *     spotter_part parts[] = {{"model", weights, weights_size}};
 *     if (spotter_should_checkpoint(run)) spotter_save(run, step, parts, 1, NULL, NAN);
 *     if (spotter_should_stop(run)) { spotter_leave(run); return SPOTTER_STOPPED; }
 *   }
 *   ...write the result, durably...
 *   spotter_finished(run);
 *   spotter_close(run);
 *
 * Functions that can fail return 0, or -1 and say why by spotter_error(). No exception leaves the
 * library. A handle is used by one thread at a time. Without the agent's environment variables
 * (NOTIFY_SOCKET, SPOTTER_NOTICE_FILE, SPOTTER_PACE_FILE, SPOTTER_CHECKPOINTS) it is a plain
 * checkpoint library. */
#ifndef SPOTTER_H
#define SPOTTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exit with this after spotter_leave(): "stopped on request, not finished; start me again". */
#define SPOTTER_STOPPED 75

typedef struct spotter_run spotter_run;
typedef struct spotter_checkpoint spotter_checkpoint;

/* Set `size` to sizeof(spotter_options), zero means the default everywhere else. */
typedef struct {
  size_t size;
  const char* directory; /* NULL: $SPOTTER_CHECKPOINTS */
  const char* faster;    /* faster places that die with the machine, separated by colons;
                            NULL: $SPOTTER_CHECKPOINTS_FASTER */
  uint64_t keep_last;    /* checkpoints; 0: two */
  uint64_t keep_every;   /* steps: the first of each so many is kept for good; 0: none */
  uint64_t keep_best;    /* so many of the best metric; 0: none */
  int lower_is_better;   /* of the metric */
  double every_seconds;  /* between checkpoints; 0: as the agent advises, else ten minutes;
                            negative: only when the agent asks */
} spotter_options;

/* Several of one name, one after the other, make one part. Names: letters, digits, ".", "_", "-".
 */
typedef struct {
  const char* name;
  const void* data;
  size_t size; /* bytes */
} spotter_part;

/* Zeros and NaN: not known. */
typedef struct {
  uint64_t step, steps_total, epoch, epochs_total;
  double loss, accuracy;
} spotter_progress_report;

/* Why the last call of this thread failed; "" when none has. Valid until the next call. */
const char* spotter_error(void);

/* NULL: see spotter_error(). Among the reasons: another trainer saves into the same directory. */
spotter_run* spotter_open(const spotter_options* options);
/* Waits until what was accepted is durable. */
void spotter_close(spotter_run* run);

/* SIGTERM (or another signal) from now on only makes spotter_should_stop() true. -1: the program
 * has a handler of its own for it, which was left alone. */
int spotter_catch_signal(int number);

/* The newest checkpoint that verifies; *found is NULL when there is none: start from scratch. Torn
 * ones are moved aside; spotter_torn() says so. -1: the disk could not be read. */
int spotter_restore(spotter_run* run, spotter_checkpoint** found);
/* What spotter_restore() moved aside, a line each; "" mostly. Valid until the next restore. */
const char* spotter_torn(spotter_run* run);
uint64_t spotter_checkpoint_step(const spotter_checkpoint* checkpoint);
/* JSON, as given to spotter_save(). */
const char* spotter_checkpoint_meta(const spotter_checkpoint* checkpoint);
const char* spotter_checkpoint_path(const spotter_checkpoint* checkpoint);
size_t spotter_checkpoint_count(const spotter_checkpoint* checkpoint);
const char* spotter_checkpoint_name(const spotter_checkpoint* checkpoint, size_t index);
/* The content of a part, valid until the checkpoint is freed. */
int spotter_checkpoint_part(const spotter_checkpoint* checkpoint, const char* name,
                            const void** data, size_t* size);
void spotter_checkpoint_free(spotter_checkpoint* checkpoint);

/* For a save that spotter_should_checkpoint() did not ask for, before the state is turned into
 * bytes where that takes time: else the agent thinks checkpoints cheaper than they are, and the
 * last one is begun too late. */
void spotter_begin_save(spotter_run* run);
/* Copies the state to memory and returns; it becomes durable behind. Waits while two copies are
 * being written already. `meta`: a JSON object or NULL; `metric`: NaN for none.
 * 0: accepted; 1: skipped, as it could not be durable before the machine is gone; -1: see
 * spotter_error() (also when an earlier checkpoint could not be written: older ones are untouched,
 * call again). */
int spotter_save(spotter_run* run, uint64_t step, const spotter_part* parts, size_t count,
                 const char* meta, double metric);
/* Waits until all that was accepted is durable. */
int spotter_flush(spotter_run* run);

/* The records of a channel, as SageMaker's Pipe mode has them: FIFOs (or files) NAME_0, NAME_1,
 * ..., one an epoch. Of a run: each save records how many records were consumed, which are those
 * that spotter_channel_next() has handed out, and a channel that is opened after spotter_restore()
 * goes on behind them, in the middle of an epoch, too (`spotter pipe` starts the stream there). So
 * save between two batches. A channel that is closed stays where it was, in each save and when it
 * is opened again. `meta` gets the member "spotter_channels" for that. */
typedef struct spotter_channel spotter_channel;

#define SPOTTER_RECORD_IO 0 /* MXNet's and SageMaker's */
#define SPOTTER_LINES 1     /* each ends with a newline, the last one, too */
#define SPOTTER_FIXED 2     /* record_bytes each */

/* Set `size` to sizeof(spotter_channel_options). */
typedef struct {
  size_t size;
  const char* name;
  const char* folder; /* of the FIFOs; NULL: that of $SM_CHANNEL_NAME, else /opt/ml/input/data */
  int format;
  size_t record_bytes; /* of SPOTTER_FIXED */
} spotter_channel_options;

/* What was consumed of an epoch: bytes of its stream, and the records in them. */
typedef struct {
  uint64_t epoch, bytes, records;
} spotter_position;

/* `run`: after spotter_restore(); NULL: it begins at epoch 0, and nothing is recorded. */
spotter_channel* spotter_channel_open(spotter_run* run, const spotter_channel_options* options);
void spotter_channel_close(spotter_channel* channel);

#define SPOTTER_END_OF_EPOCH 0 /* the next call begins the next epoch */
#define SPOTTER_RECORD 1
#define SPOTTER_NOT_YET 2 /* nothing came within `wait_ms` milliseconds */

/* One of these three, or -1: the stream is broken, or ends within a record. The record's bytes are
 * valid until the next call. A signal does not end the wait (EINTR is tried again): wait for as
 * long as your program may leave one unanswered. */
int spotter_channel_next(spotter_channel* channel, uint64_t wait_ms, const void** data,
                         size_t* size);
void spotter_channel_position(const spotter_channel* channel, spotter_position* position);
/* Goes on there. Also for who reads in another process: it says here what was consumed. */
int spotter_channel_move(spotter_channel* channel, const spotter_position* position);

/* Ask after each step; cheap. 1: save now. */
int spotter_should_checkpoint(spotter_run* run);
/* Ask after that. 1: spotter_leave() and exit with SPOTTER_STOPPED. */
int spotter_should_stop(spotter_run* run);
/* Seconds until the machine is gone; infinity without a notice. */
double spotter_deadline(spotter_run* run);
/* 1: nobody asks to stop, or the last checkpoint need not be made before so many seconds are over.
 * For what is done between two steps, such as waiting for data. `run` NULL: 0 as soon as a signal
 * of spotter_catch_signal() has come. */
int spotter_has_time(spotter_run* run, double seconds);
/* The newest step that is durable where it outlives the machine; -1: none of this run. */
int64_t spotter_durable_step(const spotter_run* run);

void spotter_progress(spotter_run* run, const spotter_progress_report* report);
/* 1: spotter_progress() of this step would be sent now. 0: nobody listens, or it was told just
 * before (10 a second are told, and the last step): no need to fetch the loss from a GPU. */
int spotter_progress_due(const spotter_run* run, uint64_t step, uint64_t steps_total);
void spotter_status(spotter_run* run, const char* text);
int spotter_leave(spotter_run* run);
/* The result is durable: the job may end. */
int spotter_finished(spotter_run* run);

#ifdef __cplusplus
}
#endif
#endif
