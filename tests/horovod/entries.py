#!/usr/bin/env python3
"""Prints entries.txt: everything of Horovod that a PyTorch program, its command line or its environment can name.

    python3 tests/horovod/entries.py HOROVOD_SOURCE > tests/horovod/entries.txt

HOROVOD_SOURCE is a git checkout. Nothing of Horovod is run or imported. Each line is a kind and a name:

    call NAME             a function that horovod.torch exports
    argument CALL NAME    of such a function, or of a class when it is made
    class NAME            a public class
    method CLASS.NAME     its public methods, and those of DistributedOptimizer
    attribute CLASS.NAME  its public attributes
    value NAME            a constant or an object that horovod.torch exports
    flag NAME             a word of horovodrun's command line
    variable NAME         of the environment, read at run time
    build NAME            of the environment, read when Horovod is built
"""
import ast
import re
import subprocess
import sys
from pathlib import Path

KINDS = ("call", "argument", "class", "method", "attribute", "value", "flag", "variable", "build")

# Modules that horovod.torch does not export whole, but whose public classes a program names.
CLASSES_OF = (
    "horovod/torch/compression.py",  # a custom compression derives from Compressor
    "horovod/common/elastic.py",  # State and ObjectState: what a state of one's own derives from
    "horovod/common/exceptions.py",  # what a program catches
)

# --- what is left out, and why ---

LEFT_OUT = {
    # A helper of DistributedOptimizer's constructor.
    "method DistributedOptimizer.find_duplicates",
    # Called by the library when hosts change, not by programs.
    "method State.on_hosts_updated",
    # Exceptions are made by the library; programs only catch them.
    "argument HostsUpdatedInterrupt skip_sync",
    "argument HorovodVersionMismatchError name",
    "argument HorovodVersionMismatchError version",
    "argument HorovodVersionMismatchError installed_version",
}
# Other frameworks, Spark and Ray: the page is about PyTorch.
OTHER_FRAMEWORKS = ("horovod/tensorflow", "horovod/keras", "horovod/_keras", "horovod/mxnet", "horovod/spark",
                    "horovod/ray", "horovod/data")
LEFT_OUT_VARIABLES = {
    # Of schedulers, launchers, compilers and other libraries, not Horovod's.
    "AR", "CCL_CONFIGURATION", "CCL_ROOT", "CSM_ALLOCATION_ID", "DDL_OPTIONS", "HCC_PATH", "MAKEFLAGS",
    "OMPI_MCA_plm_rsh_agent", "PYTHONPATH",
    # Of Spark, in the documentation.
    "HOROVOD_SPARK_START_TIMEOUT", "HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX",
}
# Not sought at all, so they need no list: names of timeline activities, data types and include guards (they stand in
# no getenv), private functions (a leading underscore), methods' arguments, and the arguments of horovod.run, which are
# horovodrun's flags under other names.


class Source:
    """The files of the checkout, parsed when first asked for."""

    def __init__(self, root):
        self.root = root
        self.trees = {}

    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def tree(self, path):
        if path not in self.trees:
            self.trees[path] = ast.parse(self.text(path))
        return self.trees[path]

    def module_path(self, module):
        """horovod.torch.mpi_ops -> horovod/torch/mpi_ops.py"""
        path = module.replace(".", "/")
        return path + "/__init__.py" if (self.root / path).is_dir() else path + ".py"

    def find(self, path, name):
        """Where a module's name is made: (path, node). Follows imports."""
        for node in ast.walk(self.tree(path)):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                return path, node
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                return path, node
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("horovod"):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return self.find(self.module_path(node.module), alias.name)
        raise LookupError(f"{path} has no {name}")

    def files(self, *patterns):
        for pattern in patterns:
            for path in sorted(self.root.glob(pattern)):
                name = path.relative_to(self.root).as_posix()
                if path.is_file() and not name.startswith(OTHER_FRAMEWORKS):
                    yield name


def arguments_of(function):
    arguments = function.args
    return [a.arg for a in arguments.posonlyargs + arguments.args + arguments.kwonlyargs if a.arg != "self"]


def public_functions(class_node):
    return [node for node in class_node.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


# --- calls and values of horovod.torch ---

def basics_method(source, name):
    """The method of HorovodBasics behind an `x = _basics.x`; None for an attribute of it (a constant)."""
    basics = source.find("horovod/common/basics.py", "HorovodBasics")[1]
    return next((node for node in public_functions(basics) if node.name == name), None)


def basics_name(node):
    """'x' of an assignment `x = _basics.x`."""
    value = getattr(node, "value", None)
    is_basics = isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "_basics"
    return value.attr if is_basics else None


def wraps_basics(function):
    """`def init(*args, **kwargs)` hands its arguments on to `_basics.init`."""
    return function.args.vararg and function.args.kwarg and not arguments_of(function)


def call_entries(name, function):
    yield f"call {name}"
    for argument in arguments_of(function):
        yield f"argument {name} {argument}"


def entries_of_name(source, path, name):
    path, node = source.find(path, name)
    if isinstance(node, ast.ClassDef):
        yield from class_entries(source, path, node, name)
    elif isinstance(node, ast.FunctionDef):
        yield from call_entries(name, basics_method(source, name) if wraps_basics(node) else node)
    elif basics_name(node) and basics_method(source, basics_name(node)):
        yield from call_entries(name, basics_method(source, basics_name(node)))
    else:
        yield f"value {name}"


def exported_names(source, path):
    """(module, name) for what a package's __init__ imports from Horovod."""
    for node in ast.walk(source.tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("horovod"):
            for alias in node.names:
                yield node.module, alias.name


def torch_entries(source):
    for module, name in exported_names(source, "horovod/torch/__init__.py"):
        if module == "horovod.torch" and name == "elastic" or name == "check_extension":
            continue  # a package, below; a helper of the import itself
        yield from entries_of_name(source, source.module_path(module), name)
    # is_homogeneous() is in mpi_ops, and documented, though the package forgets to export it.
    for node in source.tree("horovod/torch/mpi_ops.py").body:
        name = basics_name(node)
        if name and basics_method(source, name):
            yield from call_entries(name, basics_method(source, name))
    yield "call horovod.run"
    for method in optimizer_methods(source):
        yield f"method DistributedOptimizer.{method}"


def optimizer_methods(source):
    """DistributedOptimizer is a function that makes a class of the methods of one of these."""
    for name in ("_DistributedOptimizer", "_DistributedAdasumOptimizer"):
        for node in public_functions(source.find("horovod/torch/optimizer.py", name)[1]):
            yield node.name


def elastic_entries(source):
    path = "horovod/torch/elastic/__init__.py"
    exported = next(node for node in source.tree(path).body
                    if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    for name in ast.literal_eval(exported.value):
        where, node = source.find(path, name)
        if isinstance(node, ast.ClassDef):
            yield from class_entries(source, where, node, f"elastic.{name}")
        else:
            yield from call_entries(f"elastic.{name}", node)


# --- classes ---

def class_entries(source, path, node, name):
    yield f"class {name}"
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            for argument in arguments_of(item):
                yield f"argument {name} {argument}"
        elif isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            yield f"method {name}.{item.name}"
        elif isinstance(item, ast.Assign):
            for target in item.targets:
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    yield f"attribute {name}.{target.id}"


def module_class_entries(source):
    for path in CLASSES_OF:
        for node in source.tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield from class_entries(source, path, node, node.name)


# --- horovodrun ---

def flag_entries(source):
    for node in ast.walk(source.tree("horovod/runner/launch.py")):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "add_argument":
            for word in node.args:
                yield f"flag {ast.literal_eval(word)}"


# --- the environment ---

NAME = r"""(["']?[A-Za-z_]\w*["']?)"""
READ_IN_CPP = re.compile(
    r"(?:getenv|SetBoolFromEnv|SetIntFromEnv|GetBoolEnvOrDefault|GetIntEnvOrDefault|GetDoubleEnvOrDefault)\s*\(\s*" +
    NAME)
READ_IN_PYTHON = re.compile(r"(?:environ\.get\(|environ\[|getenv\()\s*" + NAME)
SET_BY_HOROVODRUN = re.compile(r"_add_arg_to_env\(env, " + NAME)
READ_IN_CMAKE = re.compile(r"(?:\$ENV\{|DEFINED ENV\{|set_gpu_op\()(\w+)")
IN_DOCUMENTATION = re.compile(r"\b_?HOROVOD_[A-Z_]*[A-Z]\b")


def resolved(name, constants):
    """The text behind a literal or a constant; None for anything else, such as a parameter."""
    return name.strip("\"'") if name[0] in "\"'" else constants.get(name)


def run_time_variables(source):
    cpp = list(
        source.files("horovod/common/**/*.h", "horovod/common/**/*.cc", "horovod/torch/*.h", "horovod/torch/*.cc"))
    python = list(source.files("horovod/common/**/*.py", "horovod/torch/**/*.py", "horovod/runner/**/*.py"))
    macros = dict(pair for path in cpp for pair in re.findall(r'#define (\w+) "(\w+)"', source.text(path)))
    for path in cpp:
        for name in READ_IN_CPP.findall(source.text(path)):
            yield resolved(name, macros)
    for path in python:
        text = source.text(path)
        constants = dict(re.findall(r"^(\w+) = '(\w+)'$", text, re.MULTILINE))
        for name in READ_IN_PYTHON.findall(text) + SET_BY_HOROVODRUN.findall(text):
            yield resolved(name, constants)


def build_variables(source):
    for path in source.files("CMakeLists.txt", "cmake/*.cmake", "cmake/Modules/*.cmake",
                             "horovod/common/**/CMakeLists.txt", "horovod/torch/CMakeLists.txt"):
        yield from READ_IN_CMAKE.findall(source.text(path))
    for path in ("setup.py", "cmake/build_utils.py"):
        for name in READ_IN_PYTHON.findall(source.text(path)):
            yield resolved(name, {})
    yield from re.findall(r"^\* ``(HOROVOD_\w+)``", source.text("docs/install.rst"), re.MULTILINE)


def environment_entries(source):
    build = {name for name in build_variables(source) if name}
    run_time = {name for name in run_time_variables(source) if name}
    for path in source.files("docs/*.rst"):
        run_time |= set(IN_DOCUMENTATION.findall(source.text(path))) - build
    for kind, names in (("variable", run_time), ("build", build)):
        for name in sorted(names):
            yield f"{kind} {name}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = Source(Path(sys.argv[1]))
    commit = subprocess.run(["git", "-C", sys.argv[1], "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    version = re.search(r"__version__ = '(.*)'", source.text("horovod/__init__.py")).group(1)
    entries = {}  # as an ordered set
    for part in (torch_entries, elastic_entries, module_class_entries, flag_entries, environment_entries):
        entries.update(dict.fromkeys(part(source)))
    left_out = LEFT_OUT | {f"{kind} {name}" for name in LEFT_OUT_VARIABLES for kind in ("variable", "build")}
    stale = {entry.split()[-1] for entry in left_out} - {entry.split()[-1] for entry in entries}
    if stale:
        sys.exit(f"left out, but not there: {sorted(stale)}")
    print(f"# Horovod {version}, commit {commit.stdout.strip()}; made by entries.py, do not edit")
    for kind in KINDS:
        for entry in entries:
            if entry.split()[0] == kind and entry not in left_out:
                print(entry)


if __name__ == "__main__":
    main()
