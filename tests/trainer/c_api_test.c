/* libspotter's C API, as a C99 program sees it. Usage: c_api_test DIRECTORY */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/library/spotter.h"

#define EXPECT(condition)                                                                   \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, spotter_error()); \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)

static spotter_run* open_run(const char* directory) {
  spotter_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.directory = directory;
  options.every_seconds = -1;
  return spotter_open(&options);
}

static void save_and_leave(const char* directory) {
  static char weights[3000000];
  spotter_checkpoint* found = (spotter_checkpoint*)directory; /* must become NULL */
  spotter_run* run = open_run(directory);
  EXPECT(run != NULL);
  EXPECT(open_run(directory) == NULL);
  EXPECT(strstr(spotter_error(), "another trainer") != NULL);
  const spotter_options without_size = {0};
  EXPECT(spotter_open(&without_size) == NULL);
  EXPECT(strstr(spotter_error(), "size") != NULL);
  spotter_begin_save(run);
  EXPECT(spotter_restore(run, &found) == 0 && found == NULL);
  EXPECT(spotter_durable_step(run) == -1);

  memset(weights, 'w', sizeof weights);
  const spotter_part parts[] = {
      {"model", weights, sizeof weights}, {"model", "tail", 4}, {"log", "a,b\n", 4}};
  EXPECT(spotter_save(run, 7, parts, 3, "{\"epoch\": 2}", NAN) == 0);
  EXPECT(spotter_save(run, 8, parts, 3, "not json", NAN) == -1);
  EXPECT(strstr(spotter_error(), "JSON") != NULL);
  const spotter_part bad[] = {{"../x", "a", 1}};
  EXPECT(spotter_save(run, 8, bad, 1, NULL, 0.5) == -1);
  EXPECT(spotter_flush(run) == 0);
  EXPECT(spotter_durable_step(run) == 7);

  const spotter_progress_report report = {7, 100, 1, 2, 0.5, NAN};
  spotter_progress(run, &report);
  const spotter_metric metrics[] = {{"val_loss", 0.25}, {"val_accuracy", NAN}};
  EXPECT(spotter_progress_with(run, &report, metrics, 2) == 0);
  EXPECT(spotter_progress_with(run, &report, NULL, 0) == 0);
  const spotter_metric taken[] = {{"loss", 0.25}}, odd[] = {{"val loss", 0.25}};
  EXPECT(spotter_progress_with(run, &report, taken, 1) == -1);
  EXPECT(strstr(spotter_error(), "'loss': the name has another meaning") != NULL);
  EXPECT(spotter_progress_with(run, &report, odd, 1) == -1);
  EXPECT(strstr(spotter_error(), "a letter first") != NULL);
  spotter_status(run, "well");
  EXPECT(isinf(spotter_deadline(run)));
  EXPECT(spotter_should_checkpoint(run) == 0 && spotter_should_stop(run) == 0);
  EXPECT(spotter_catch_signal(SIGTERM) == 0);
  EXPECT(spotter_catch_signal(SIGTERM) == -1); /* it has a handler now */
  raise(SIGTERM);
  /* The signal is looked for 20 times a second. */
  while (spotter_should_checkpoint(run) == 0) continue;
  EXPECT(spotter_should_stop(run) == 0);
  EXPECT(spotter_save(run, 9, parts, 3, NULL, 0.25) == 0);
  EXPECT(spotter_should_stop(run) == 1);
  EXPECT(spotter_leave(run) == 0);
  spotter_close(run);
}

static void resume(const char* directory) {
  const void* data = NULL;
  size_t size = 0;
  spotter_checkpoint* found = NULL;
  spotter_run* run = open_run(directory);
  EXPECT(run != NULL && spotter_restore(run, &found) == 0 && found != NULL);
  EXPECT(spotter_checkpoint_step(found) == 9);
  EXPECT(strcmp(spotter_checkpoint_meta(found), "{}") == 0);
  EXPECT(strstr(spotter_checkpoint_path(found), "step-000000000009") != NULL);
  EXPECT(spotter_checkpoint_count(found) == 2);
  EXPECT(spotter_checkpoint_name(found, 2) == NULL);
  EXPECT(spotter_checkpoint_part(found, "model", &data, &size) == 0);
  EXPECT(size == 3000004 && memcmp((const char*)data + 3000000, "tail", 4) == 0);
  EXPECT(((const char*)data)[0] == 'w' && ((const char*)data)[2999999] == 'w');
  EXPECT(spotter_checkpoint_part(found, "absent", &data, &size) == -1);
  EXPECT(strcmp(spotter_torn(run), "") == 0);
  spotter_checkpoint_free(found);
  spotter_checkpoint_free(NULL);
  EXPECT(spotter_finished(run) == 0);
  spotter_close(run);
  spotter_close(NULL);
}

static spotter_channel* open_channel(spotter_run* run, const char* folder) {
  spotter_channel_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.name = "lines";
  options.folder = folder;
  options.format = SPOTTER_LINES;
  return spotter_channel_open(run, &options);
}

/* The second life goes on behind the record that the first one had when it saved. */
static void read_channel(const char* directory) {
  const void* data = NULL;
  size_t size = 0;
  char path[4096];
  for (int life = 0; life < 2; ++life) {
    spotter_position position;
    spotter_checkpoint* found = NULL;
    spotter_run* run = open_run(directory);
    EXPECT(run != NULL && open_channel(run, directory) == NULL); /* not before the restore */
    EXPECT(spotter_restore(run, &found) == 0);
    spotter_checkpoint_free(found);
    snprintf(path, sizeof path, "%s/lines_0", directory);
    FILE* file = fopen(path, "w");
    EXPECT(file != NULL && fputs("one\ntwo\n", file) >= 0 && fclose(file) == 0);
    spotter_channel* channel = open_channel(run, directory);
    EXPECT(channel != NULL && open_channel(run, directory) == NULL);
    EXPECT(spotter_channel_next(channel, 1000, &data, &size) == SPOTTER_RECORD);
    EXPECT(size == 3 && memcmp(data, life == 0 ? "one" : "two", 3) == 0);
    spotter_channel_position(channel, &position);
    EXPECT(position.records == (life == 0 ? 1U : 2U) && position.bytes == 4 * position.records);
    EXPECT(spotter_save(run, 20 + (uint64_t)life, NULL, 0, NULL, NAN) == 0);
    if (life == 1) {
      EXPECT(spotter_channel_next(channel, 1000, &data, &size) == SPOTTER_END_OF_EPOCH);
      EXPECT(spotter_channel_next(channel, 1, &data, &size) == SPOTTER_NOT_YET);
      position.epoch = position.bytes = position.records = 0;
      EXPECT(spotter_channel_move(channel, &position) == 0);
      EXPECT(spotter_channel_next(channel, 1000, &data, &size) == SPOTTER_RECORD);
    }
    spotter_close(run);
    spotter_channel_close(channel);
  }
  spotter_channel_close(NULL);
}

/* A program with a format of its own. */
static void own_format(const char* directory) {
  char path[4096];
  spotter_run* run = open_run(directory);
  EXPECT(run != NULL);
  spotter_resumed(run, 30);
  snprintf(path, sizeof path, "%s/own-31", directory);
  EXPECT(spotter_saved(run, 31, path) == -1 && strstr(spotter_error(), "own-31") != NULL);
  FILE* file = fopen(path, "w");
  EXPECT(file != NULL && fputs("state", file) >= 0 && fclose(file) == 0);
  EXPECT(spotter_sync(path) == 0);
  EXPECT(spotter_can_save(run) == 1);
  EXPECT(spotter_saved(run, 31, path) == 0);
  EXPECT(spotter_durable_step(run) == 31);
  spotter_close(run);
}

int main(int count, char** arguments) {
  EXPECT(count == 2);
  save_and_leave(arguments[1]);
  resume(arguments[1]);
  own_format(arguments[1]);
  read_channel(arguments[1]);
  return 0;
}
