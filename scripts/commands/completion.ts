import { UsageError } from "../errors.ts";
import { type DescribedCommand, defineCommand } from "./command.ts";

export const command = defineCommand({
  argument: {
    name: "[shell]",
    text: "the shell",
    choices: {
      bash: "for ~/.bashrc: source <(npx engine-room completion bash)",
      zsh: "for ~/.zshrc: source <(npx engine-room completion zsh)",
    },
  },
  notes: [
    "Completes `engine-room` and `npx engine-room`: commands, options and their values, and the names of stacks and models from the stack files of the current folder. If each shell should start quickly, write the script to a file and source that.",
  ],
  takesNoStack: true,
  async run({ positionals: [shell], describedCommands }) {
    if (shell === undefined) throw new UsageError("Missing shell: bash or zsh.");
    const script = bashScript(await describedCommands());
    return { text: shell === "bash" ? script : `${ZSH_HEAD}${script}` };
  },
});

/** zsh runs completions of bash. */
const ZSH_HEAD = `(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
autoload -Uz bashcompinit && bashcompinit
`;

/** Values that the shell itself looks up in the stack files. */
const LOOKED_UP: readonly (string | undefined)[] = ["-s", "--stack", "-m", "--model"];

function bashScript(commands: readonly DescribedCommand[]): string {
  const names = commands.map(({ parser }) => parser.name()).join(" ");
  const words = commands.map(({ parser, command: { argument } }) => {
    const flags = parser.options.flatMap(({ long }) => long ?? []);
    return `        ${parser.name()}) words="${[...Object.keys(argument?.choices ?? {}), ...flags, "--help"].join(" ")}" ;;`;
  });
  // Without choices a file or a text of the user's own.
  const values = commands.flatMap(({ parser }) =>
    parser.options
      .filter(({ required }) => required)
      .flatMap(({ short, long, argChoices = [] }) =>
        [short, long]
          .filter((flag) => flag !== undefined && !LOOKED_UP.includes(flag))
          .map((flag) => `      "${parser.name()} ${flag}") words="${argChoices.join(" ")}" ;;`),
      ),
  );
  return `_engine_room() {
  local first=1 stack=local words= i
  [[ \${COMP_WORDS[0]} == npx ]] && first=2
  local command=\${COMP_WORDS[first]} current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  for ((i = first; i < COMP_CWORD; i++)); do
    case \${COMP_WORDS[i]} in -s|--stack) stack=\${COMP_WORDS[i+1]} ;; esac
  done
  if ((first == 2)) && [[ \${COMP_WORDS[1]} != engine-room ]]; then
    ((COMP_CWORD == 1)) && words=engine-room
  elif ((COMP_CWORD < first)); then
    words=engine-room
  elif ((COMP_CWORD == first)); then
    words="${names} help --help --version"
  else
    case "$command $previous" in
      help\\ *) words="${names}" ;;
      *\\ -s|*\\ --stack) words=$(ls Pulumi.*.yaml 2>/dev/null | sed 's/^Pulumi\\.//; s/\\.yaml$//') ;;
      *\\ -m|*\\ --model)
        words=$(sed -n '/engine-room:models:/,/engine-room:[^m]/s/^[- {]*name: *\\([^ ,}]*\\).*/\\1/p' "Pulumi.$stack.yaml" 2>/dev/null) ;;
${values.join("\n")}
      *) case $command in
${words.join("\n")}
        esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _engine_room engine-room npx
`;
}
