# Completion of cluster and baton in bash. Made by scripts/cli_pages.py of the program's help.
_cluster() {
  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="" flags="" words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${COMP_WORDS[i]}" in
      " run"|" pull"|" models"|" list"|" rm"|" up"|" join"|" keygen"|" rotate-key"|" status"|" down"|" plan"|" doctor"|" drain"|" add-node"|" remove-node"|" scale"|" model"|" model inspect"|" import"|" chat"|" ps"|" logs"|" help") command="$command ${COMP_WORDS[i]}" ;;
    esac
  done
  COMPREPLY=()
  case "$command $before" in
    " run --log-level") COMPREPLY=($(compgen -W "debug info warn error off" -- "$word")); return ;;
    " run --name"|" run --device"|" run --port"|" run --max-model-len"|" run --system"|" run --temperature"|" run --max-tokens") return ;;
    " up --log-level") COMPREPLY=($(compgen -W "debug info warn error off" -- "$word")); return ;;
    " join --log-level") COMPREPLY=($(compgen -W "debug info warn error off" -- "$word")); return ;;
    " join --node"|" join --token"|" join --key"|" join --run-dir") return ;;
    " keygen --api") return ;;
    " down --patience") return ;;
    " doctor --device"|" doctor --ranks"|" doctor --ranks-on-device") return ;;
    " scale --replicas"|" scale --tensor-parallel-size") return ;;
    " import --model"|" import --name"|" import --properties"|" import --handler") return ;;
    " chat --cluster"|" chat --endpoint"|" chat --api-key"|" chat --model"|" chat --system"|" chat --temperature"|" chat --max-tokens") return ;;
    " logs --cluster"|" logs -n"|" logs --lines") return ;;
  esac
  case "$command" in
    "") flags="-h --help --version"; words="run pull models list rm up join keygen rotate-key status down plan doctor drain add-node remove-node scale model import chat ps logs help" ;;
    " run") flags="-h --help --serve --print-config --pull --name --device --port --max-model-len --system --temperature --max-tokens --log-level"; words="" ;;
    " pull") flags="-h --help"; words="" ;;
    " models") flags="-h --help --json --known"; words="" ;;
    " list") flags="-h --help --json --known"; words="" ;;
    " rm") flags="-h --help"; words="" ;;
    " up") flags="-h --help --json --log-level"; words="" ;;
    " join") flags="-h --help --node --token --key --run-dir --log-level"; words="" ;;
    " keygen") flags="-h --help --api --admin"; words="" ;;
    " rotate-key") flags="-h --help --force"; words="" ;;
    " status") flags="-h --help --json --watch"; words="" ;;
    " down") flags="-h --help --patience"; words="" ;;
    " plan") flags="-h --help --json"; words="" ;;
    " doctor") flags="-h --help --device --ranks --ranks-on-device --json"; words="" ;;
    " drain") flags="-h --help"; words="" ;;
    " add-node") flags="-h --help"; words="" ;;
    " remove-node") flags="-h --help"; words="" ;;
    " scale") flags="-h --help --replicas --tensor-parallel-size"; words="" ;;
    " model") flags="-h --help"; words="inspect" ;;
    " model inspect") flags="-h --help --json"; words="" ;;
    " import") flags="-h --help --model --name --properties --handler"; words="" ;;
    " chat") flags="-h --help --cluster --endpoint --api-key --model --system --temperature --max-tokens"; words="" ;;
    " ps") flags="-h --help --json"; words="" ;;
    " logs") flags="-h --help --cluster -f --follow -n --lines"; words="" ;;
    " help") flags="-h --help"; words="run pull models list rm up join keygen rotate-key status down plan doctor drain add-node remove-node scale model import chat ps logs help" ;;
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
  esac
}
complete -o default -F _cluster cluster baton  # default: names of files, where nothing else is known
