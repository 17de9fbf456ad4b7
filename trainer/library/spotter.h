/* libspotter: atomic checkpoints, written in the background; the interruption notice; progress.
 * The C API is stable: programs compiled today work with later versions.
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
 * Functions that can fail return 0, or -1; spotter_error() then has the reason. No exception leaves
 * the library. A handle is used by one thread at a time. Without the agent's environment variables
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

/* Set `size` to sizeof(spotter_options). In all other members zero means the default. */
typedef struct {
  size_t size;
  const char* directory; /* NULL: $SPOTTER_CHECKPOINTS. Where that is set, in a job of Spotter's, a
                            directory outside the job's storage is refused: it would be lost */
  const char* faster;    /* faster places, lost with the machine, separated by colons;
                            NULL: $SPOTTER_CHECKPOINTS_FASTER */
  uint64_t keep_last;    /* checkpoints; 0: two */
  uint64_t keep_every;   /* steps: of each so many, the first is kept for good; 0: none */
  uint64_t keep_best;    /* so many of the best metric; 0: none */
  int lower_is_better;   /* of the metric */
  double every_seconds;  /* between checkpoints; 0: as the agent advises, else ten minutes;
                            negative: only when the agent asks */
  int resumed_later;     /* 1: spotter_restore() tells the agent nothing; spotter_resumed(), which
                            has to be called after it, says that the run is ready, and from where */
} spotter_options;

/* Consecutive entries of one name form one part. Names: letters, digits, ".", "_", "-". */
typedef struct {
  const char* name;
  const void* data;
  size_t size; /* bytes */
} spotter_part;

/* Zeros and NaN: unknown. */
typedef struct {
  uint64_t step, steps_total, epoch, epochs_total;
  double loss, accuracy;
} spotter_progress_report;

/* Beside loss and accuracy. */
typedef struct {
  const char* name;
  double value;
} spotter_metric;

/* Why this thread's last call failed; "": it succeeded. Valid until the next call. */
const char* spotter_error(void);

/* NULL: see spotter_error(), for example when another trainer saves into the same directory. */
spotter_run* spotter_open(const spotter_options* options);
/* Waits until all accepted saves are durable. */
void spotter_close(spotter_run* run);

/* From now on this signal only makes spotter_should_stop() true. -1: the program has its own
 * handler for it, which was kept. */
int spotter_catch_signal(int number);

/* The newest checkpoint that verifies; *found is NULL when there is none: start from scratch. Torn
 * ones are moved aside and listed by spotter_torn(). -1: see spotter_error(), for example when the
 * disk could not be read. */
int spotter_restore(spotter_run* run, spotter_checkpoint** found);
/* What spotter_restore() moved aside, a line each; mostly "". Valid until the next restore. */
const char* spotter_torn(spotter_run* run);
uint64_t spotter_checkpoint_step(const spotter_checkpoint* checkpoint);
/* JSON, as given to spotter_save(). */
const char* spotter_checkpoint_meta(const spotter_checkpoint* checkpoint);
const char* spotter_checkpoint_path(const spotter_checkpoint* checkpoint);
size_t spotter_checkpoint_count(const spotter_checkpoint* checkpoint);
const char* spotter_checkpoint_name(const spotter_checkpoint* checkpoint, size_t index);
/* The content of a part, valid until the checkpoint is freed. Nobody else uses that memory: it may
 * be changed. */
int spotter_checkpoint_part(const spotter_checkpoint* checkpoint, const char* name,
                            const void** data, size_t* size);
/* Frees the memory of one part before the rest. */
void spotter_checkpoint_drop(spotter_checkpoint* checkpoint, const char* name);
void spotter_checkpoint_free(spotter_checkpoint* checkpoint);

/* For a save without spotter_should_checkpoint(): call this before turning the state into bytes, if
 * that takes time. Without it the agent underestimates the cost of checkpoints, and the last one
 * begins too late. */
void spotter_begin_save(spotter_run* run);
/* Copies the state to memory and returns; it becomes durable in the background. Waits while two
 * copies are being written, or one, and memory for another would leave less than a tenth of the
 * machine's, or none of a control group's. `meta`: a JSON object or NULL; `metric`: NaN for none.
 * 0: accepted; 1: skipped, as it could not be durable before the machine is gone; -1: see
 * spotter_error() (also when an earlier checkpoint could not be written: older ones are unharmed,
 * call again). */
int spotter_save(spotter_run* run, uint64_t step, const spotter_part* parts, size_t count,
                 const char* meta, double metric);
/* For a state that lies on a device: the memory that the next spotter_save() writes from, pinned if
 * CUDA is in use. What is fetched to there as the parts of that save will lie, one behind the
 * other, each from a multiple of 4096 on, is not copied again. Valid until that call. Waits as it
 * does. 1: there is nothing to fetch, as spotter_save() of this step will copy nothing; -1: see
 * spotter_error(). */
int spotter_place(spotter_run* run, uint64_t step, uint64_t bytes, void** memory);
/* Waits until all accepted saves are durable; -1: one failed. */
int spotter_flush(spotter_run* run);

/* Checkpoints in a format of the program's own, a file or a folder each, in the place of
 * spotter_restore() and spotter_save():
 *
 *   spotter_resumed(run, step);
 *   ...
 *   if (spotter_should_checkpoint(run) && spotter_can_save(run)) {
 *     ...write the file or folder `path`...
 *     if (spotter_saved(run, step, path) != 0) die(spotter_error());
 *   }
 */

/* Reports where the run resumes; 0: from scratch. */
void spotter_resumed(spotter_run* run, uint64_t step);
/* 0: what is saved now would not be durable before the machine is gone: keep the last one;
 * spotter_should_stop() returns 1 from now on. */
int spotter_can_save(spotter_run* run);
/* Makes `path` durable, with all that is in it, and reports it as the checkpoint of `step`.
 * Training paused for it since spotter_should_checkpoint() or spotter_begin_save(). A step that was
 * reported is not reported again. -1: see spotter_error(). */
int spotter_saved(spotter_run* run, uint64_t step, const char* path);
/* -1: another machine of the gang saves into this directory since, as this one was paused for long;
 * see spotter_error(). To be asked before a file or folder that was written under another name is
 * renamed to `path`. Not in a gang: 0. */
int spotter_is_writer(spotter_run* run);
/* Makes a file durable, or a folder with all that is in it, and its name. Of several processes that
 * write one folder, each calls it before the first one calls spotter_saved(). */
int spotter_sync(const char* path);

/* The records of a channel, as in SageMaker's Pipe mode: FIFOs (or files) NAME_0, NAME_1, ..., one
 * an epoch. With a run, each save records how many records spotter_channel_next() has returned, and
 * a channel opened after spotter_restore() continues after them, also in the middle of an epoch
 * (`spotter pipe` starts the stream there). So save between two batches. A closed channel keeps its
 * position, in each save and when it is opened again. `meta` gets the member "spotter_channels" for
 * that. */
typedef struct spotter_channel spotter_channel;

#define SPOTTER_RECORD_IO 0 /* of MXNet and SageMaker */
#define SPOTTER_LINES 1     /* each ends with a newline, the last one, too */
#define SPOTTER_FIXED 2     /* record_bytes each */

/* Set `size` to sizeof(spotter_channel_options). */
typedef struct {
  size_t size;
  const char* name;
  const char* folder; /* of the FIFOs; NULL: $SM_CHANNEL_NAME's, else /opt/ml/input/data */
  int format;
  size_t record_bytes; /* of SPOTTER_FIXED */
} spotter_channel_options;

/* What was consumed of an epoch: bytes of its stream, and the records in them. */
typedef struct {
  uint64_t epoch, bytes, records;
} spotter_position;

/* REQUIRES: spotter_restore(run) was called. `run` NULL: begins at epoch 0, records nothing. */
spotter_channel* spotter_channel_open(spotter_run* run, const spotter_channel_options* options);
void spotter_channel_close(spotter_channel* channel);

#define SPOTTER_END_OF_EPOCH 0 /* the next call begins the next epoch */
#define SPOTTER_RECORD 1
#define SPOTTER_NOT_YET 2 /* nothing arrived within `wait_ms` milliseconds */

/* One of these three, or -1: the stream is broken, or ends inside a record. The record's bytes are
 * valid until the next call. A signal does not end the wait (EINTR is retried): wait no longer than
 * your program may leave a signal unhandled. */
int spotter_channel_next(spotter_channel* channel, uint64_t wait_ms, const void** data,
                         size_t* size);
void spotter_channel_position(const spotter_channel* channel, spotter_position* position);
/* Continues at that position. If another process reads the channel, call this to record what it
 * consumed. */
int spotter_channel_move(spotter_channel* channel, const spotter_position* position);

/* Call it after each step; it is cheap. 1: save now. */
int spotter_should_checkpoint(spotter_run* run);
/* Call it after that. 1: call spotter_leave() and exit with SPOTTER_STOPPED. */
int spotter_should_stop(spotter_run* run);
/* Seconds until the machine is gone; infinity without a notice. */
double spotter_deadline(spotter_run* run);
/* 1: nobody asks to stop, or so many seconds are left before the last checkpoint has to be made.
 * For work between two steps, such as waiting for data. `run` NULL: 0 once a signal of
 * spotter_catch_signal() was received. */
int spotter_has_time(spotter_run* run, double seconds);
/* The newest step of this run that is durable where it outlives the machine; -1: none. */
int64_t spotter_durable_step(const spotter_run* run);

void spotter_progress(spotter_run* run, const spotter_progress_report* report);
/* The same with other metrics, 16 at most: "val_loss" of an evaluation. Names: a letter, then
 * letters, digits, "_", ".", "-" and "/", 64 at most; NaN: not known. Beyond 10 a second the
 * metrics wait for the next report, or for the end. 0, or -1: see spotter_error(), for example for
 * a name that has another meaning ("loss", "step"). */
int spotter_progress_with(spotter_run* run, const spotter_progress_report* report,
                          const spotter_metric* metrics, size_t count);
/* 1: spotter_progress() of this step would be sent now. 0: there is no agent, or one was just sent
 * (10 a second, and the last step): the loss need not be fetched from the GPU. */
int spotter_progress_due(const spotter_run* run, uint64_t step, uint64_t steps_total);
void spotter_status(spotter_run* run, const char* text);
int spotter_leave(spotter_run* run);
/* Reports that the result is durable: the job may end. */
int spotter_finished(spotter_run* run);

#ifdef __cplusplus
}
#endif
#endif
