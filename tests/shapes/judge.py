#!/usr/bin/python3
"""Judges what `spotter-emulator serve --record FILE` has recorded, by botocore's service models:
each operation, parameter and type that was asked for, and each element of the answers.

usage: judge.py FILE...     ends with 1 when anything is found that the models do not know
"""

import collections
import datetime
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

import botocore.exceptions
import botocore.model
import botocore.parsers
import botocore.serialize
import botocore.session
import rest_xml

# As signatures name them, where that is not botocore's name.
NAMES = {"elasticfilesystem": "efs", "servicequotas": "service-quotas"}
QUERIES = "query", "ec2"
# What AWS has added since the models of Debian 12: values (AWS Batch, API reference,
# ComputeResource; EC2's instance types), and parameters.
LATER = {"SPOT_PRICE_CAPACITY_OPTIMIZED", "g6.xlarge"}
LATER_PARAMETERS = {"CreateVolume.VolumeInitializationRate", "DescribeImages.IncludeDisabled"}


class Service:
    def __init__(self, name):
        self.name = name
        self.model = botocore.session.get_session().get_service_model(NAMES.get(name, name))
        self.protocol = self.model.metadata["protocol"]
        self.serializer = botocore.serialize.create_serializer(self.protocol,
                                                               include_validation=True)
        self.parser = botocore.parsers.create_parser(self.protocol)
        self.list_item = "item" if self.protocol == "ec2" else "member"


def local(element):
    return element.tag.rpartition("}")[2]


# What AWS has added since the botocore of Debian 12, 1.29: that of 1.43 knows them.
SINCE = {"/volumeInitializationRate", "/volumeSet/item/volumeInitializationRate",
         "/volumeStatusSet/item/initializationStatusDetails",
         "/volumeStatusSet/item/availabilityZoneId",
         "/instanceTypeSet/item/ebsInfo/maximumEbsAttachments",
         "/instanceTypeSet/item/ebsInfo/attachmentLimitType",
         "/imagesSet/item/publicSsmParameterName",
         "DescribeJobs's answer.jobs[].isCancelled", "DescribeJobs's answer.jobs[].isTerminated"}


def unknown_elements(element, shape, path, item):
    """Paths of the elements below `element` that `shape` has no member for."""
    if shape.type_name == "list":
        name = shape.member.serialization.get("name", item)
        for child in element:
            if local(child) != name:
                yield f"{path}/{local(child)}"
            else:
                yield from unknown_elements(child, shape.member, f"{path}/{name}", item)
    elif shape.type_name == "structure":
        members = {m.serialization.get("name", n): m for n, m in shape.members.items()}
        for child in element:
            if local(child) in members:
                yield from unknown_elements(child, members[local(child)],
                                            f"{path}/{local(child)}", item)
            elif (path, local(child)) != ("", "requestId") and \
                    f"{path}/{local(child)}" not in SINCE:
                yield f"{path}/{local(child)}"


def answer_root(body, operation):
    """The element that has the members of the operation's output."""
    root = ElementTree.fromstring(body)
    wrapper = operation.output_shape.serialization.get("resultWrapper")
    return next(child for child in root if local(child) == wrapper) if wrapper else root


# What a query asks for: Filter.1.Name=..., Tags.member.1.Key=...

def tree_of(pairs):
    tree = {}
    for name, value in pairs:
        at = tree
        *way, last = name.split(".")
        for part in way:
            at = at.setdefault(part, {})
            if not isinstance(at, dict):
                raise ValueError(f"{name} is below a value")
        at[last] = value
    return tree


def wire_name(name, member, protocol):
    known = member.serialization
    if protocol != "ec2":
        return known.get("name", name)
    if "queryName" in known:
        return known["queryName"]
    own = known.get("name", name)
    return own[0].upper() + own[1:]


def of_query(tree, shape, path, protocol):
    kind = shape.type_name
    if kind not in ("structure", "list", "map"):
        yield from of_scalar(tree, shape, path)
    elif not isinstance(tree, dict):
        if tree or kind != "list":  # an empty list is sent as an empty value
            yield f"{path} is a {kind}, not '{tree}'"
    elif kind == "structure":
        members = {wire_name(name, member, protocol): (name, member)
                   for name, member in shape.members.items()}
        for name, below in tree.items():
            if f"{path}.{name}" in LATER_PARAMETERS:
                continue
            if name not in members:
                yield f"{path}.{name} is no parameter"
            else:
                yield from of_query(below, members[name][1], f"{path}.{name}", protocol)
        missing = set(shape.required_members) - {members[name][0] for name in tree
                                                 if name in members}
        yield from (f"{path}.{name} is required" for name in sorted(missing))
    else:
        yield from of_many(tree, shape, path, protocol)


def of_many(tree, shape, path, protocol):
    is_map = shape.type_name == "map"
    if protocol != "ec2" and not shape.serialization.get("flattened"):
        inner = "entry" if is_map else shape.member.serialization.get("name", "member")
        if set(tree) != {inner}:
            yield f"{path} has {sorted(tree)} in the place of {inner}"
            return
        tree = tree[inner]
    for number, below in tree.items():
        if not number.isdigit():
            yield f"{path}.{number} is no number in a list"
        elif is_map:
            yield from of_query(below.get("key", ""), shape.key, f"{path}.key", protocol)
            yield from of_query(below.get("value", ""), shape.value, f"{path}.value", protocol)
        else:
            yield from of_query(below, shape.member, f"{path}.{number}", protocol)


def is_of(value, kind):
    try:
        if kind in ("integer", "long"):
            int(value)
        elif kind in ("float", "double"):
            float(value)
        elif kind == "timestamp":
            datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return False
    return kind != "boolean" or value in ("true", "false")


def of_scalar(value, shape, path):
    if not isinstance(value, str):
        yield f"{path} is one value, not {value}"
    elif not is_of(value, shape.type_name):
        yield f"{path}: '{value}' is no {shape.type_name}"
    elif not is_known(value, shape):
        yield f"{path}: '{value}' is none of the model's"


def is_known(value, shape):
    known = getattr(shape, "enum", None)
    return not known or value in known or value in LATER


# What JSON says, either way

KINDS = {"string": str, "integer": int, "long": int, "float": (int, float), "double": (int, float),
         "boolean": bool, "timestamp": (int, float), "structure": dict, "map": dict, "list": list,
         "blob": str}


def of_json(value, shape, path, asked):
    kind = shape.type_name
    if value is None:
        return
    if not isinstance(value, KINDS[kind]) or isinstance(value, bool) != (kind == "boolean"):
        yield f"{path}: {json.dumps(value)} is no {kind}"
    elif kind == "structure":
        members = {member.serialization.get("name", name): member
                   for name, member in shape.members.items()}
        for name, below in value.items():
            if name in members:
                yield from of_json(below, members[name], f"{path}.{name}", asked)
            elif f"{path}.{name}" not in SINCE:
                yield f"{path}.{name} is {'no parameter' if asked else 'not known'}"
    elif kind in ("list", "map"):
        inner = shape.member if kind == "list" else shape.value
        for below in value if kind == "list" else value.values():
            yield from of_json(below, inner, f"{path}[]", asked)
    elif asked and not is_known(value, shape):
        yield f"{path}: '{value}' is none of the model's"


class Judge:
    def __init__(self):
        self.services = {}
        self.judged = collections.Counter()

    def service(self, name):
        if name not in self.services:
            self.services[name] = Service(name)
        return self.services[name]

    def problems(self, line):
        """Of one request and its answer."""
        try:
            service = self.service(line["service"])
        except botocore.exceptions.UnknownServiceError:
            return [f"{line['service']}: no such service"]
        if service.protocol == "rest-xml":
            return list(rest_xml.problems(service, line, self.judged))
        of = self.of_query if service.protocol in QUERIES else self.of_json
        return list(of(service, line))

    def operation(self, service, name):
        found = service.model.operation_model(name)
        self.judged[f"{service.name} {name}"] += 1
        return found

    def of_query(self, service, line):
        text = line["body"] or urllib.parse.urlsplit(line["target"]).query
        pairs = dict(urllib.parse.parse_qsl(text, keep_blank_values=True))
        action, version = pairs.pop("Action", ""), pairs.pop("Version", "")
        try:
            operation = self.operation(service, action)
        except botocore.model.OperationNotFoundError:
            yield f"{service.name} {action}: no such operation"
            return
        if version != service.model.api_version:
            yield f"{action}: version '{version}'"
        if operation.input_shape is not None:
            yield from of_query(tree_of(pairs.items()), operation.input_shape, action,
                                service.protocol)
        if line["status"] != 200 or operation.output_shape is None:
            return
        shape = operation.output_shape
        for path in unknown_elements(answer_root(line["answer"], operation), shape, "",
                                     service.list_item):
            yield f"{action}: {path} of the answer is not known"
        try:
            service.parser.parse({"status_code": 200, "headers": {},
                                  "body": line["answer"].encode()}, shape)
        except (ValueError, botocore.parsers.ResponseParserError) as why:
            yield f"{action}: the answer cannot be read: {why}"

    def of_json(self, service, line):
        operation = self.of_target(service, line)
        if operation is None:
            yield f"{service.name}: no such operation: {line['method']} {line['target']} " \
                  f"{line['action']}"
            return
        name = operation.name
        asked = json.loads(line["body"] or "{}")
        if operation.input_shape is not None:
            yield from of_json(asked, operation.input_shape, name, True)
            in_query = {shape.serialization.get("name", member)
                        for member, shape in operation.input_shape.members.items()
                        if shape.serialization.get("location") == "querystring"}
            query = urllib.parse.parse_qsl(urllib.parse.urlsplit(line["target"]).query)
            yield from (f"{name}: {one} is no parameter" for one, _ in query
                        if one not in in_query)
            in_body = {member for member, shape in operation.input_shape.members.items()
                       if "location" not in shape.serialization}
            missing = set(operation.input_shape.required_members) & in_body - set(asked)
            yield from (f"{name}.{member} is required" for member in sorted(missing))
        if line["status"] == 200 and operation.output_shape is not None:
            answer = json.loads(line["answer"] or "{}")
            yield from of_json(answer, operation.output_shape, f"{name}'s answer", False)

    def of_target(self, service, line):
        path = urllib.parse.urlsplit(line["target"]).path
        prefix = service.model.metadata.get("targetPrefix")
        for name in service.model.operation_names:
            operation = service.model.operation_model(name)
            if prefix:
                same = line["action"] == f"{prefix}.{name}"
            else:
                fixed = operation.http["requestUri"].split("{")[0]
                same = operation.http["method"] == line["method"] and (
                    path.startswith(fixed) if fixed != operation.http["requestUri"]
                    else path == fixed)
            if same:
                return self.operation(service, name)
        return None


def main(files):
    judge, found, unsigned = Judge(), collections.Counter(), 0
    for file in files:
        with open(file, encoding="utf-8") as lines:
            for text in lines:
                line = json.loads(text)
                if not line["service"]:
                    unsigned += 1
                    continue
                found.update(judge.problems(line))
    for problem, times in sorted(found.items()):
        print(f"{problem} ({times})")
    print(f"{sum(judge.judged.values())} requests of {len(judge.judged)} operations judged, "
          f"{unsigned} unsigned ones not; {len(found)} faults")
    return 1 if found or not judge.judged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
