"""What Tab offers, for bash, zsh and fish: commands, their words and options, and the sandboxes of the server."""
import re

DIRECTORIES, FILES = ("DIR",), ("FILE",)
LEVELS = "error warn info debug"
LIST = {  # what an argument is chosen from: the first column of a list, without its heading
    "SANDBOX": "sandglass ps 2>/dev/null | sed '1d; s/ .*//'",
    "SNAPSHOT": "sandglass snapshots 2>/dev/null | sed '1d; s/ .*//'",
}


def kind(value):
    return "directory" if value in DIRECTORIES else "file" if value in FILES else "level" if value == "LEVEL" else "text"


def flags(option):
    return [name for name in (option.short, option.name) if name]


def valued(usages):
    """Options that take a value, by what the value is; an option means the same everywhere."""
    found = {}
    for usage in usages:
        for option in usage.options.values():
            if option.value:
                found.setdefault(kind(option.value), set()).update(flags(option))
    return {name: sorted(options) for name, options in found.items()}


def first_words(usage, usages):
    return [other.name for other in usages] if usage.name == "help" else usage.words()


def bash(usages):
    values = valued(usages)
    lines = ["# bash completion for sandglass", "", "_sandglass() {",
             '        local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words= files= i',
             "        COMPREPLY=()",
             "        for ((i = 2; i < COMP_CWORD; i++)); do # after `--` comes a command of the sandbox's",
             '                [[ ${COMP_WORDS[i]} == -- ]] && return',
             "        done",
             "        if ((COMP_CWORD == 1)); then",
             f'                words="{" ".join(usage.name for usage in usages)} --help --version"',
             '                mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")', "                return", "        fi",
             "        case $before in"]
    answers = {"directory": 'compgen -d -- "$word"', "file": 'compgen -f -- "$word"', "level": f'compgen -W "{LEVELS}" -- "$word"'}
    for name, options in sorted(values.items()):
        lines.append(f"        {' | '.join(options)})")
        if name in answers:
            lines.append(f"                mapfile -t COMPREPLY < <({answers[name]})")
        lines.append("                return ;;")
    lines += ["        esac", "        case $command in"]
    for usage in usages:
        words = first_words(usage, usages) + [flag for option in usage.options.values() for flag in flags(option)]
        lines.append(f'        {usage.name}) words="{" ".join(words)}"')
        for argument in usage.arguments():
            if argument in LIST:
                lines.append(f'                [[ $word == -* ]] || words+=" $({LIST[argument]})"')
        if "FILE" in usage.arguments():
            lines.append("                files=yes")
        lines[-1] += " ;;"
    lines += ["        esac", '        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")',
              '        [[ $files && $word != -* ]] && mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$word")',
              "        return 0", "}", "complete -F _sandglass sandglass", ""]
    return "\n".join(lines)


def zsh_quote(text):
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh_option(option):
    action = {"directory": ":directory:_files -/", "file": ":file:_files", "level": f":level:({LEVELS})"}
    value = action.get(kind(option.value), f":{re.match('[A-Z]+', option.value).group().lower()}:") if option.value else ""
    what = f"[{zsh_quote(option.what)}]" if option.what else ""
    names = f"'{{{option.short},{option.name}}}'" if option.short else option.name
    repeat = "*" if option.name == "--env" else ""
    return f"'{repeat}{names}{what}{value}'"


def zsh(usages):
    lines = ["#compdef sandglass", "# zsh completion for sandglass", ""]
    for name, command in LIST.items():
        lines += [f"_sandglass_{name.lower()}() {{", "        local -a ids", f"        ids=(${{(f)\"$({command})\"}})",
                  f"        _describe {name.lower()} ids", "}", ""]
    lines += ["_sandglass() {", "        local -a commands", "        local curcontext=$curcontext state line", "        commands=("]
    lines += [f"                '{usage.name}:{zsh_quote(usage.summary)}'" for usage in usages]
    lines += ["        )", "        if ((CURRENT == 2)); then", "                _describe command commands", "                return", "        fi",
              "        local command=$words[2]", "        shift words", "        ((CURRENT--))", "        case $command in"]
    for usage in usages:
        specs = [zsh_option(option) for option in usage.options.values()]
        words = first_words(usage, usages)
        lists = [f"_sandglass_{argument.lower()}" for argument in usage.arguments() if argument in LIST]
        if words:
            specs.append(f"'1:word:({' '.join(words)})'")
        has_files = "FILE" in usage.arguments()
        if lists:
            specs.append(f"'{1 if has_files else '*'}:id:{lists[0]}'")
        if has_files:
            specs.append("'*:file:_files'")
        elif not words and not lists:
            specs.append("'*::argument:_normal'" if "COMMAND" in usage.arguments() else "'*:argument:'")
        lines.append(f"        {usage.name})")
        lines.append("                _arguments -s " + " \\\n                        ".join(specs) + " ;;")
    return "\n".join(lines + ["        esac", "}", "", '_sandglass "$@"', ""])


def fish_quote(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_option(usage, option):
    parts = [f"complete -c sandglass -n '__fish_seen_subcommand_from {usage.name}'"]
    parts += [f"-s {option.short[1:]}"] * bool(option.short)
    parts += [f"-l {option.name[2:]}" if option.name.startswith("--") else f"-s {option.name[1:]}"]
    if option.value:
        parts.append({"directory": "-x -a '(__fish_complete_directories)'", "file": "-r -F", "level": f"-x -a '{LEVELS}'"}.get(kind(option.value), "-x"))
    parts += [f"-d {fish_quote(option.what)}"] * bool(option.what)
    return " ".join(parts)


def fish(usages):
    lines = ["# fish completion for sandglass", "complete -c sandglass -f"]
    for usage in usages:
        lines.append(f"complete -c sandglass -n __fish_use_subcommand -a {usage.name} -d {fish_quote(usage.summary)}")
    for usage in usages:
        lines += [fish_option(usage, option) for option in usage.options.values()]
        seen = f"complete -c sandglass -n '__fish_seen_subcommand_from {usage.name}'"
        if first_words(usage, usages):
            lines.append(f"{seen} -a {fish_quote(' '.join(first_words(usage, usages)))}")
        if "FILE" in usage.arguments():
            lines.append(f"{seen} -F")
        for argument in usage.arguments():
            if argument in LIST:
                lines.append(f"{seen} -a \"({LIST[argument].replace('$', chr(92) + '$')})\"")
    return "\n".join(lines + [""])
