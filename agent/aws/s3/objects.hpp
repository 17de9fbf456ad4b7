// Operations on objects, each call final and whole: see client.hpp for what is dealt with on the
// way. These turn the client until they are done.
#pragma once

#include <span>
#include <vector>

#include "agent/aws/formats/pages.hpp"
#include "agent/aws/s3/checksum.hpp"
#include "agent/aws/s3/client.hpp"

namespace spotter::s3 {

struct Object {
  std::string bucket;
  std::string key;
  std::uint64_t size = 0;
  std::string etag;
  Checksum checksum;  // where S3 said one
};

Result<Object, Failure> head(Client& client, const wire::S3Location& location);

struct Listed {
  std::vector<wire::ListedObject> objects;
  std::vector<std::string> folders;
  std::string date;  // the first answer's, by S3's own clock
};
// All objects whose key begins so, in S3's order (of the keys' bytes): up to wire::most_objects. A
// listing that does not end (aws/formats/pages.hpp) is Failure::Kind::Refused. With a
// delimiter only those of this "folder"; `folders` then has the others' common beginnings.
Result<Listed, Failure> list(Client& client, const wire::S3Location& prefix,
                             const std::string& delimiter = {});

// Asks for the checksum of an object, and where the parts of a multipart upload end. `asked` gets
// each call that this takes, so that the caller can drop it; `done` is called once, from turn().
void ask_for_checksum(Client& client, const Object& object,
                      const std::function<void(Client::CallId)>& asked,
                      const std::function<void(Result<Checksum, Failure>)>& done);

struct Content {
  Object object;
  std::string bytes;
};
// A whole object of at most 8 MiB; of a longer one Failure::Kind::Refused.
Result<Content, Failure> read(Client& client, const wire::S3Location& location);

// A write's condition on the object that is there.
struct Condition {
  bool absent = false;  // there is none: else Failure::Kind::Exists
  std::string etag;     // it is this one
};

// At once, so for some MiB at most. The ETag of the new object. With a condition, a lost answer is
// settled by looking: whether we were the ones who wrote it. S3 refuses bytes that do not have the
// `expected` checksum, and keeps it; without one CRC-32C is sent.
Result<std::string, Failure> put(Client& client, const wire::S3Location& location,
                                 std::string_view bytes, const Condition& condition = {},
                                 const Checksum& expected = {});

// That there is none is no failure.
Result<void, Failure> remove(Client& client, const wire::S3Location& location);

// The parts of these operations, for whoever turns the client by itself (agent/aws/s3_client.hpp).
Request list_request(const wire::S3Location& prefix, const std::string& delimiter,
                     const std::string& token);
Result<wire::ListPage, Failure> page_of(const wire::S3Location& prefix,
                                        const Result<Answer, Failure>& answer);
// Adds a page: the next one's token (empty: it was the last).
Result<std::string, Failure> add_page(const wire::S3Location& prefix,
                                      const Result<Answer, Failure>& answer, wire::Pages& pages,
                                      Listed& to);
Request read_request(const wire::S3Location& location);
// As read() returns it.
Result<Content, Failure> content_of(const wire::S3Location& location,
                                    Result<Answer, Failure> answer);
// `writer`: new_writer().
Request put_request(const wire::S3Location& location, std::string_view bytes,
                    const std::string& writer, const Condition& condition,
                    const Checksum& expected = {});

// The parts of a write that put() and upload() share.
inline constexpr std::string_view writer_header = "x-amz-meta-spotter-writer";
std::string new_writer();  // names one write among all
// After S3 says that a write is too late: the object's ETag if it was this very write that made it.
Result<std::string, Failure> settle(Client& client, const wire::S3Location& location,
                                    const std::string& writer, const Failure& failure);

// Long writes: multipart uploads, several objects at once.
// Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html

struct NewObject {
  wire::S3Location location;
  std::string_view bytes;  // must stay until upload() returns
};

// Objects up to this size are put at once. S3 takes parts of 5 MiB and more, 10,000 at most.
inline constexpr std::size_t part_bytes = 16U << 20;

// The ETags of the new objects, in their order. After a failure some of them may have been made;
// what was begun of the others is removed, as far as S3 can be reached. Gives up soon after `stop`,
// when given, answers true.
Result<std::vector<std::string>, Failure> upload(Client& client, std::span<const NewObject> objects,
                                                 const std::function<bool()>& stop = {});

}  // namespace spotter::s3
