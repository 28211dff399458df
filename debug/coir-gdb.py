"""coir for gdb: tasks, their scopes and their asynchronous stacks, in a live process or a core.

    coir tasks [NAME]           every task as the tree of scopes that it is
    coir task NAME bt [full]    the asynchronous stack of a task: futures, and the frames of fibers
    coir task NAME              lets bt, frame, up, down, info locals look at the task's fiber
    coir task off               ends that; so does continuing the program
    coir scopes                 every open scope, with its tasks counted
    coir waits                  how many tasks wait for what, and where
    coir stack EXPRESSION       as task NAME bt, of a future that is awaited

NAME is a task's name, or the address that coir tasks shows. gdb loads this file by itself where
coir is installed; otherwise: (gdb) source .../coir-gdb.py

What cannot be read, as in a core of a program that has overwritten its memory, is said where it
would be shown; the rest is shown all the same.
"""
import collections
import functools

import gdb
import gdb.printing
import gdb.unwinder

# ---- reading the process ----


def container(pointer, type_name, member):
    """The struct of which `pointer` points at a member."""
    kind = gdb.lookup_type(type_name)
    offset = int(gdb.Value(0).cast(kind.pointer())[member].address)
    return gdb.Value(int(pointer) - offset).cast(kind.pointer())


class Damaged(gdb.GdbError):
    """What was read cannot be true."""


BRANCHES_MOST = 1 << 16


def list_of(head, type_name, member):
    """The structs in a struct ci_list."""
    node, last, seen = head['next'], int(head.address), set()
    while int(node) not in (0, last):
        if int(node) in seen:
            raise Damaged('a list leads back to 0x{:x}'.format(int(node)))
        seen.add(int(node))
        yield container(node, type_name, member)
        node = node['next']


def text(pointer, default):
    """A string of the program, without what a terminal would obey."""
    if not int(pointer):
        return default
    return ''.join(character if character.isprintable() else '?'
                   for character in pointer.string('utf-8', errors='replace'))


def indent_of(depth):
    """Of a line of a tree, up to a limit, as a deep tree would be all spaces."""
    return '  ' * min(depth, 50)


def complaint(error):
    """Why something was not read."""
    return 'cannot be read: {}'.format(str(error) or type(error).__name__)


def function_at(address):
    """The function of an address; not one that is inlined there."""
    block = gdb.block_for_pc(int(address))
    function = None
    while block:
        function = block.function or function
        block = block.superblock
    return function


def place_of(pc):
    """"function (file:line)" of an address."""
    function = function_at(pc)
    sal = gdb.find_pc_line(int(pc))
    where = ' ({}:{})'.format(sal.symtab.filename, sal.line) if sal.symtab else ''
    return (function.print_name if function else '0x{:x}'.format(int(pc))) + where


def runtimes():
    return list_of(gdb.parse_and_eval('ci_runtimes'), 'struct coir_runtime', 'link')


def workers(runtime):
    return [runtime['workers'][i] for i in range(int(runtime['worker_count']))]


# ---- tasks and scopes ----


def scopes_of(runnable):
    """The task scopes that a runnable has open, the outermost first."""
    found, seen = [], set()
    scope = runnable['cancel_scopes']
    while int(scope):
        if int(scope) in seen:
            raise Damaged('the scopes lead back to 0x{:x}'.format(int(scope)))
        seen.add(int(scope))
        if int(scope['kind']) == KIND_TASKS:
            found.insert(0, container(scope, 'struct ci_scope', 'cancel_scope'))
        scope = scope['outer']
    return found


def tasks_of(scope):
    return list_of(scope['tasks'], 'struct ci_task', 'sibling')


KIND_TASKS = 4
Entry = collections.namedtuple('Entry', 'depth task error')
Opened = collections.namedtuple('Opened', 'depth scope opener error')


def open_scopes(task):
    """The task scopes that a task has open, and why the rest of them is missing, or None."""
    found = []
    try:
        for runnable in runnables_of(task):
            found += scopes_of(runnable)
    except Exception as error:
        return found, error
    return found, None


def walk(root, depth):
    """The tasks of a scope, each followed by those of the scopes it has open. An error stands where
    what follows could not be read."""
    rest, seen = [(depth, tasks_of(root))], set()
    while rest:
        depth, tasks = rest[-1]
        try:
            task = next(tasks)
            if int(task) in seen:
                raise Damaged('a task is twice in the tree: 0x{:x}'.format(int(task)))
        except StopIteration:
            rest.pop()
            continue
        except Exception as error:
            rest.pop()
            yield Entry(depth, None, error)
            continue
        seen.add(int(task))
        yield Entry(depth, task, None)
        scopes, error = open_scopes(task)
        if error:
            yield Entry(depth + 1, None, error)
        rest += [(depth + 1, tasks_of(scope)) for scope in reversed(scopes)]


def walk_scopes(root, opener):
    """A scope, and those that its tasks have open, likewise."""
    rest, seen = [Opened(0, root, opener, None)], set()
    while rest:
        opened = rest.pop()
        yield opened
        if opened.error or int(opened.scope) in seen:
            continue
        seen.add(int(opened.scope))
        inner, depth = [], opened.depth + 1
        try:
            for task in tasks_of(opened.scope):
                scopes, error = open_scopes(task)
                inner += [Opened(depth, scope, safe_name_of(task), None) for scope in scopes]
                if error:
                    inner.append(Opened(depth, None, safe_name_of(task), error))
        except Exception as error:
            inner.append(Opened(depth, None, opened.opener, error))
        rest += reversed(inner)


def all_workers():
    for runtime in runtimes():
        yield from workers(runtime)


def all_tasks():
    """All that can be read."""
    for worker in all_workers():
        yield from (entry.task for entry in walk(worker['root'], 0) if not entry.error)


def function_of(task):
    """What the task runs: a function, or the kind of its outermost future."""
    fn = task['root']['fn']
    if int(fn):
        return place_of(fn)
    root = task['root']['arg']
    if not int(root):
        return '?'
    kind = root.cast(gdb.lookup_type('coir_future').pointer())['kind']
    return place_of(kind['poll'])


def name_of(task):
    if int(task['name']):
        return text(task['name'], '')
    root = task['root']
    if int(root['fn']):
        function = function_at(root['fn'])
        return function.print_name if function else '?'
    future = root['arg'].cast(gdb.lookup_type('coir_future').pointer())
    return text(future['kind']['name'], '?') if int(future) else '?'


def safe_name_of(task):
    try:
        return name_of(task)
    except Exception:
        return '?'


def runs(task):
    worker = task['worker']
    return int(worker) and int(worker['runnable']) and \
        int(worker['runnable']['task']) == int(task)


# ---- futures ----


def symbol(address):
    found = gdb.execute('info symbol 0x{:x}'.format(int(address)), to_string=True)
    return found.split(' ')[0]


@functools.lru_cache(maxsize=None)
def kind_symbol(address):
    return symbol(address)


def is_kind(future, name):
    return kind_symbol(int(future['kind'])) == name


ENDS = ('end_kind', 'member_end_kind', 'remote_end_kind', 'start_kind')


def chain(runnable):
    """The futures that a runnable is in, the innermost first."""
    future = runnable['inner']
    seen = set()
    while int(future) and int(future) not in seen:
        seen.add(int(future))
        if kind_symbol(int(future['kind'])) in ENDS:
            return
        yield future
        if is_kind(future, 'ci_fiber_kind'):
            call = container(future, 'struct ci_fiber', 'back')['call']
            future = call['future']['caller']
        else:
            future = future['caller']


def members_of(future):
    """The branches that run in a group or a set."""
    if is_kind(future, 'ci_group_kind'):
        group = container(future, 'struct ci_group', 'future')
        if int(group['count']) > BRANCHES_MOST:
            raise Damaged('a group of {} members'.format(int(group['count'])))
        branches = [group['branches'][i].address for i in range(int(group['count']))]
        return [branch for branch in branches if int(branch['end']['state']) == 1]
    if is_kind(future, 'set_kind'):
        block = gdb.block_for_pc(int(future['kind']['poll']))
        kind = gdb.lookup_type('struct set', block)
        members = gdb.Value(int(future)).cast(kind.pointer())
        return list(list_of(members['running'], 'struct ci_branch', 'link'))
    return []


def runnables_of(task):
    """A task's own runnable, and those of the members of what it awaits."""
    rest, seen = [task['runnable']], set()
    while rest:
        runnable = rest.pop(0)
        if int(runnable.address) in seen:
            raise Damaged('a branch is a member of itself: 0x{:x}'.format(int(runnable.address)))
        seen.add(int(runnable.address))
        yield runnable
        for future in chain(runnable):
            rest += [branch['runnable'] for branch in members_of(future)]


def wait_of(runnable):
    """What a runnable waits for, in words."""
    future = runnable['inner']
    if not int(future):
        return 'nothing'
    members = members_of(future)
    if not members:
        return text(future['kind']['name'], '?')
    how = 'all of ' if is_kind(future, 'ci_group_kind') and \
        int(container(future, 'struct ci_group', 'future')['mode']) != 2 else 'any of '
    return how + ', '.join(wait_of(branch['runnable']) for branch in members)


def state_of(task):
    if runs(task):
        return 'runs'
    if is_kind(task['runnable']['inner'], 'ci_call_kind'):
        return 'has not begun'
    if is_kind(task['runnable']['inner'], 'ci_fiber_kind'):
        return 'is ready'
    return 'waits for ' + wait_of(task['runnable'])


# ---- the frames of a parked fiber ----

REGISTERS = {'i386:x86-64': ('rsp', 'rbp', 'rip'), 'aarch64': ('sp', 'x29', 'pc'),
             'riscv:rv64': ('sp', 'fp', 'pc')}


class ParkedUnwinder(gdb.unwinder.Unwinder):
    """Makes the caller of the newest frame the place where a fiber is parked. Registers are only
    told, not set: so it works on a core, and changes nothing in a process."""

    def __init__(self):
        super().__init__('coir')
        self.context = None

    def look_at(self, context):
        self.context = context
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.context is None or pending.level() != 0:
            return None
        names = REGISTERS[pending.architecture().name()]
        sp, fp, pc = (self.context[field] for field in ('sp', 'fp', 'pc'))
        info = pending.create_unwind_info(FrameId(sp, pc))
        for name, value in zip(names, (sp, fp, pc)):
            kind = pending.read_register(name).type
            info.add_saved_register(name, gdb.Value(int(value)).cast(kind))
        return info


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


unwinder = ParkedUnwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
gdb.events.cont.connect(lambda event: unwinder.look_at(None) if unwinder.context else None)


def contexts_of(fiber):
    """Where a parked fiber is: its own context, then those of the resumers of its generators."""
    yield fiber['context']
    generator, seen = fiber['generator'], set()
    while int(generator) and int(generator) not in seen:
        seen.add(int(generator))
        yield generator['resumer']
        generator = generator['outer']


class Look:
    """While it is entered, the newest frame's caller is where a context is parked."""

    def __init__(self, context):
        self.context = context

    def __enter__(self):
        unwinder.look_at(self.context)

    def __exit__(self, *error):
        unwinder.look_at(None)


def older(frame):
    """A frame and its callers."""
    found = []
    while frame:
        found.append(frame)
        frame = frame.older()
    return found


def thread_of(worker):
    """The thread of a worker, or None."""
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        try:
            current = gdb.parse_and_eval('ci_worker_current')
        except gdb.error:
            continue
        if int(current) == int(worker):
            return thread
    return None


@functools.lru_cache(maxsize=None)
def library():
    """The folder of coir's own sources."""
    entry = gdb.lookup_static_symbol('fiber_main') or gdb.lookup_global_symbol('ci_await')
    return entry.symtab.fullname().rsplit('/', 2)[0] + '/' if entry else '-'


def is_internal(frame):
    symtab = frame.find_sal().symtab
    return bool(symtab) and symtab.fullname().startswith(library())


def without_internals(found):
    """The frames of a parked fiber from the public call on in which it parked, without those
    at its root."""
    names = [frame.name() or '' for frame in found]
    outside = next((i for i, frame in enumerate(found) if not is_internal(frame)), 0)
    first = next((i for i in range(outside) if names[i].startswith('coir_')), outside)
    return [frame for frame, name in zip(found[first:], names[first:])
            if name not in ('fiber_main', 'generator_main', 'ci_context_entry')]


def describe(frame, full):
    sal = frame.find_sal()
    arguments = []
    try:
        block = frame.block()
        while block and not block.function:
            block = block.superblock
        names = [s for s in block if s.is_argument] if block else []
        for name in names:
            try:
                value = frame.read_var(name).format_string(max_depth=1)
            except (gdb.error, ValueError):
                value = '?'
            arguments.append('{}={}'.format(name.name, value))
    except RuntimeError:
        pass
    where = ' at {}:{}'.format(sal.symtab.filename, sal.line) if sal.symtab else ''
    yield '{} ({}){}'.format(frame.name() or '0x{:x}'.format(frame.pc()), ', '.join(arguments),
                             where)
    if full:
        frame.select()
        for line in gdb.execute('info locals', to_string=True).splitlines():
            yield '      ' + line


def fiber_stack(fiber, full):
    """The frames of a fiber, the newest first, without those of the switch."""
    worker = fiber['runnable']['task']['worker']
    selected = gdb.selected_thread()
    try:
        if int(worker['fiber']) == int(fiber):
            if not thread_of(worker):
                yield 'it runs, on a thread that is not known here'
                return
            for frame in older(gdb.newest_frame()):
                yield from describe(frame, full)
            return
        for context in contexts_of(fiber):
            with Look(context):
                for frame in without_internals(older(gdb.newest_frame().older())):
                    yield from describe(frame, full)
    finally:
        if selected:
            selected.switch()


def labels_of(function_pc):
    """The labels of a function: name -> address."""
    block = gdb.block_for_pc(int(function_pc))
    while block and not block.function:
        block = block.superblock
    return {} if not block else {symbol.name: int(symbol.value().address or symbol.value())
                                 for symbol in block
                                 if symbol.addr_class == gdb.SYMBOL_LOC_LABEL}


def awaits_at(future):
    """Where a frame has its COIR_AWAIT: its state is the distance of the label there, whose name
    ends in the line, from that of COIR_BEGIN."""
    poll = future['kind']['poll']
    labels = labels_of(poll)
    if 'coir_begin_label' not in labels or not int(future['state']):
        return ''
    state = int(future['state'])
    at = labels['coir_begin_label'] + (state - (1 << 32) if state >> 31 else state)
    lines = [name.rsplit('_', 1)[1] for name, address in labels.items()
             if address == at and name.startswith('coir_resume_')]
    file = gdb.find_pc_line(int(poll)).symtab.filename
    return ' at {}:{}'.format(file, ' or '.join(sorted(lines, key=int))) if lines else ''


def stack_of(runnable, full, indent=''):
    """The asynchronous stack of a runnable, as lines, the newest first."""
    level = 0
    for future in chain(runnable):
        if is_kind(future, 'ci_fiber_kind'):
            fiber = container(future, 'struct ci_fiber', 'back')
            for line in fiber_stack(fiber, full):
                if line.startswith('      '):
                    yield indent + line
                    continue
                yield '{}#{:<3}{}'.format(indent, level, line)
                level += 1
            continue
        poll = function_at(future['kind']['poll'])
        name = text(future['kind']['name'], '?')
        yield '{}#{:<3}{}(coir_future *) 0x{:x} <{}>{}'.format(
            indent, level, poll.print_name + ' ' if poll else '', int(future), name,
            awaits_at(future))
        level += 1
        for branch in members_of(future):
            yield indent + '    - the member at 0x{:x}'.format(int(branch))
            yield from stack_of(branch['runnable'], full, indent + '      ')


# ---- commands ----


def find(name):
    """The task of a name or an address."""
    matches = [task for task in all_tasks()
               if name in (safe_name_of(task), '0x{:x}'.format(int(task)))]
    if not matches:
        raise gdb.GdbError('no task {}; see coir tasks'.format(name))
    if len(matches) > 1:
        places = ', '.join('0x{:x}'.format(int(task)) for task in matches[:20])
        raise gdb.GdbError('{} tasks are called {}: {}'.format(len(matches), name, places))
    return matches[0]


class Coir(gdb.Command):
    __doc__ = __doc__

    def __init__(self):
        super().__init__('coir', gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)


class Tasks(gdb.Command):
    """Every task as the tree of scopes that it is: coir tasks [NAME]"""

    def __init__(self):
        super().__init__('coir tasks', gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for worker in all_workers():
            print('worker {}'.format(int(worker['index'])))
            for entry in walk(worker['root'], 1):
                indent = indent_of(entry.depth)
                if entry.error:
                    print(indent + 'what follows ' + complaint(entry.error))
                elif argument in safe_name_of(entry.task):
                    print('{}{} 0x{:x} {}'.format(indent, safe_name_of(entry.task),
                                                  int(entry.task), self.line_of(entry.task)))

    def line_of(self, task):
        try:
            cancelled = ' (cancelled)' if int(task['runnable']['cancelled']) else ''
            return '{}{}, runs {}'.format(state_of(task), cancelled, function_of(task))
        except Exception as error:
            return complaint(error)


class Task(gdb.Command):
    """The asynchronous stack of a task: coir task NAME [bt [full]], or coir task off"""

    def __init__(self):
        super().__init__('coir task', gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        if not words:
            raise gdb.GdbError('coir task NAME [bt [full]], or coir task off')
        if words == ['off']:
            unwinder.look_at(None)
            return
        if words[1:] not in ([], ['bt'], ['bt', 'full']):
            raise gdb.GdbError('after the NAME of a task (in quotes, if it has spaces) may follow '
                               'bt, or bt full: not {}'.format(' '.join(words[1:])))
        task = find(words[0])
        if words[1:]:
            print('{} 0x{:x} {}'.format(name_of(task), int(task), state_of(task)))
            for line in stack_of(task['runnable'], 'full' in words):
                print(line)
            return
        self.select(task)

    def select(self, task):
        for future in chain(task['runnable']):
            if is_kind(future, 'ci_fiber_kind'):
                fiber = container(future, 'struct ci_fiber', 'back')
                if int(task['worker']['fiber']) == int(fiber):
                    thread_of(task['worker'])
                else:
                    unwinder.look_at(fiber['context'])
                gdb.execute('frame 1' if unwinder.context else 'frame 0')
                return
        raise gdb.GdbError('{} has no fiber; see coir task {} bt'.format(name_of(task),
                                                                         name_of(task)))


class Scopes(gdb.Command):
    """Every open scope, with its tasks counted: coir scopes"""

    def __init__(self):
        super().__init__('coir scopes', gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for worker in all_workers():
            name = 'worker {}'.format(int(worker['index']))
            for opened in walk_scopes(worker['root'].address, name):
                try:
                    line = 'scope of {} {}'.format(opened.opener, complaint(opened.error)) \
                        if opened.error else self.line_of(opened.scope, opened.opener)
                except Exception as error:
                    line = 'scope 0x{:x} of {} {}'.format(int(opened.scope), opened.opener,
                                                          complaint(error))
                print(indent_of(opened.depth) + line)

    def line_of(self, scope, opener):
        cancelled = ' (cancelled)' if scope['cancelled'] else ''
        resting = ', {} of them at rest'.format(int(scope['resting'])) if scope['resting'] else ''
        return 'scope 0x{:x} of {}: {} tasks{}{}'.format(int(scope), opener, int(scope['live']),
                                                         resting, cancelled)


class Waits(gdb.Command):
    """How many tasks wait for what, and where: coir waits"""

    def __init__(self):
        super().__init__('coir waits', gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        counts = collections.Counter()
        for worker in all_workers():
            for entry in walk(worker['root'], 0):
                try:
                    what = 'what follows ' + complaint(entry.error) if entry.error else \
                        state_of(entry.task) + ': ' + self.place_of(entry.task)
                except Exception as error:
                    what = complaint(error)
                counts[what] += 1
        for what, count in counts.most_common():
            print('{:6} {}'.format(count, what))
        resting = self.count_resting()
        if resting:
            print('{:6} rest: they wait without a record'.format(resting))

    def place_of(self, task):
        lines = [line.split(None, 1)[1] for line in stack_of(task['runnable'], False)
                 if line.startswith('#')]
        return next((line for line in lines if ' at ' in line and not line.startswith('coir_')),
                    lines[0] if lines else '')

    def count_resting(self):
        count = 0
        for worker in all_workers():
            for opened in walk_scopes(worker['root'].address, ''):
                try:
                    count += 0 if opened.error else int(opened.scope['resting'])
                except Exception:
                    continue
        return count


class Stack(gdb.Command):
    """The futures that await a future: coir stack EXPRESSION"""

    def __init__(self):
        super().__init__('coir stack', gdb.COMMAND_STACK, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        future = gdb.parse_and_eval(argument).cast(gdb.lookup_type('coir_future').pointer())
        for line in stack_of({'inner': future}, False):
            print(line)


for command in (Coir, Tasks, Task, Scopes, Waits, Stack):
    command()

# ---- pretty printers ----


class FuturePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        kind = self.value['kind']
        if not int(kind):
            return 'a future that was not made'
        return '<{}> result {} state {}'.format(text(kind['name'], '?'),
                                                int(self.value['result']),
                                                int(self.value['state']))


class TaskPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return 'task {} {}'.format(name_of(self.value), state_of(self.value))


def printers():
    found = gdb.printing.RegexpCollectionPrettyPrinter('coir')
    found.add_printer('future', '^coir_future$', FuturePrinter)
    found.add_printer('task', '^ci_task$', TaskPrinter)
    return found


gdb.printing.register_pretty_printer(None, printers(), replace=True)
