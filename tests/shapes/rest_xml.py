"""S3's requests and answers, by botocore's model: which operation it is, its query, its headers,
its documents. Called by judge.py."""

import urllib.parse
import xml.etree.ElementTree as ElementTree

import botocore.parsers

# Of signatures and of HTTP, whatever the operation.
OF_EACH = {"x-amz-date", "x-amz-content-sha256", "x-amz-user-agent", "x-amz-decoded-content-length",
           "x-amz-trailer", "x-amz-request-id", "x-amz-id-2", "x-amz-bucket-region",
           "x-amz-te"}
# What S3 has added since the botocore of Debian 12, 1.29: that of 1.43 knows them.
SINCE = {"x-amz-optional-object-attributes", "x-amz-checksum-type", "x-amz-checksum-crc64nvme",
         "x-amz-mp-object-size", "ChecksumType", "ChecksumCRC64NVME"}


def local(element):
    return element.tag.rpartition("}")[2]


def located(shape, where):
    """{name on the wire: member} of those that are in the query or in a header."""
    return {member.serialization["name"]: (name, member)
            for name, member in (shape.members.items() if shape else ())
            if member.serialization.get("location") == where}


def place_of(line):
    """(bucket, key) as the path has them, or the host's name the bucket; none: empty."""
    path = urllib.parse.unquote(urllib.parse.urlsplit(line["target"]).path).lstrip("/")
    host = line["host"].partition(":")[0]
    if host.endswith(".localhost"):
        return host.removesuffix(".localhost"), path
    bucket, _, key = path.partition("/")
    return bucket, key


def operation_of(model, line, query, headers):
    """The most particular of those whose method, place, query and required members fit."""
    bucket, key = place_of(line)
    best, most = None, -1
    for name in model.operation_names:
        operation = model.operation_model(name)
        uri, _, fixed = operation.http["requestUri"].partition("?")
        fixed = dict(urllib.parse.parse_qsl(fixed, keep_blank_values=True))
        fixed.pop("x-id", None)
        if operation.http["method"] != line["method"]:
            continue
        if ("{Bucket}" in uri, "{Key+}" in uri) != (bool(bucket), bool(key)):
            continue
        if any(one not in query or value and query[one] != value for one, value in fixed.items()):
            continue
        needed = set(operation.input_shape.required_members if operation.input_shape else ())
        in_query = {wire for wire, (name, _) in
                    located(operation.input_shape, "querystring").items() if name in needed}
        in_headers = {wire.lower() for wire, (name, _) in
                      located(operation.input_shape, "header").items() if name in needed}
        if in_query - set(query) or in_headers - set(headers):
            continue
        # SelectObjectContent and others share place and method: what is fixed tells them apart.
        rank = 2 * len(fixed) + len(in_query) + len(in_headers)
        if rank > most:
            best, most = operation, rank
    return best


def of_query(operation, query):
    fixed = urllib.parse.parse_qsl(operation.http["requestUri"].partition("?")[2],
                                   keep_blank_values=True)
    known = located(operation.input_shape, "querystring")
    for name, value in query.items():
        if name in dict(fixed) or name == "x-id" or name.startswith("X-Amz-"):
            continue
        if name not in known:
            yield f"{operation.name}: {name} is no parameter"
        elif known[name][1].type_name in ("integer", "long") and not value.isdigit():
            yield f"{operation.name}.{name}: '{value}' is no {known[name][1].type_name}"


def of_headers(shape, headers, what):
    known = {name.lower() for name in located(shape, "header")}
    prefixes = tuple(name.lower() for name in located(shape, "headers"))
    for name in headers:
        if name not in known | OF_EACH | SINCE and not (prefixes and name.startswith(prefixes)):
            yield f"{what}: the header {name} is not known"


def of_element(element, shape, path):
    """Paths below it that the shape has no member for."""
    if shape.type_name == "list":
        name = shape.member.serialization.get("name", "member")
        for child in element:
            if local(child) == name:
                yield from of_element(child, shape.member, f"{path}/{name}")
            else:
                yield f"{path}/{local(child)}"
    if shape.type_name != "structure":
        return
    members = {}
    for name, member in shape.members.items():
        flat = member.type_name == "list" and member.serialization.get("flattened")
        inner = member.member.serialization.get("name") if flat else None
        wire = member.serialization.get("name", inner or name)
        members[wire] = member.member if flat else member
    for child in element:
        name = local(child)
        if name in members:
            yield from of_element(child, members[name], f"{path}/{name}")
        elif name not in SINCE:
            yield f"{path}/{name}"


def payload_of(shape):
    """What the body is: the member that is the payload, or all of it; none: bytes, or nothing."""
    if shape is None:
        return None
    name = shape.serialization.get("payload")
    payload = shape.members[name] if name else shape
    in_body = payload.type_name == "structure" and (name or any(
        "location" not in member.serialization for member in shape.members.values()))
    return payload if in_body else None


def of_document(text, shape, what):
    payload = payload_of(shape)
    if payload is None or not text:
        return
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as why:
        yield f"{what}: {why}"
        return
    yield from (f"{what}: {path} is not known" for path in of_element(root, payload, ""))


def problems(service, line, judged):
    """`judged`: counts the operation by its name."""
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(line["target"]).query,
                                        keep_blank_values=True))
    operation = operation_of(service.model, line, query, line["headers"])
    if operation is None:
        yield f"s3: no such operation: {line['method']} {sorted(query)}"
        return
    judged[f"s3 {operation.name}"] += 1
    yield from of_query(operation, query)
    yield from of_headers(operation.input_shape, line["headers"], operation.name)
    yield from of_document(line["body"], operation.input_shape, operation.name)
    if line["status"] not in (200, 204, 206):
        return
    answer = f"{operation.name}'s answer"
    yield from of_headers(operation.output_shape, line["answer_headers"], answer)
    if operation.output_shape is None or payload_of(operation.output_shape) is None:
        return
    yield from of_document(line["answer"], operation.output_shape, answer)
    try:
        service.parser.parse({"status_code": 200, "headers": line["answer_headers"],
                              "body": line["answer"].encode()}, operation.output_shape)
    except (ValueError, botocore.parsers.ResponseParserError) as why:
        yield f"{answer} cannot be read: {why}"
