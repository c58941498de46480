#!/bin/sh
# The owner's work and the miner's, from beginning to end, in a temporary folder: `make demo` runs it. Every command is
# shown before it runs; the demo fails with the first command that does not do what it should.
set -eu

LC_ALL=C
export LC_ALL

samples=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/ppdm-demo.XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' HUP INT TERM
cd "$folder"
cp "$samples/breast_cancer.csv" "$samples/breast_cancer.toml" .

say() {
    printf '\n'
    printf '# %s\n' "$@"
}

# run CODE COMMAND: show a command, run it, and insist on its exit code
run() {
    printf '\n$ %s\n' "$2"
    code=0
    eval "$2" || code=$?
    if [ "$code" -ne "$1" ]; then
        printf 'The demo failed: exit code %s where %s was expected.\n' "$code" "$1" >&2
        exit 1
    fi
    [ "$code" -eq 0 ] || printf '(exit code %s)\n' "$code"
}

say '1. The original: 699 samples of tissue, nine grades each, and a diagnosis.'
run 0 'head -4 breast_cancer.csv'

say '2. Choose a budget for the whole record. The first design is the one to take: 20,000 records are worth at most' \
    'as many unperturbed ones as "clean" says. Every record then shows a few of its attributes.'
run 0 'ppdm entropy --record-epsilon 2 --records 20000 --attributes 9x10'
run 0 'ppdm generate --function 1 --records 20000 --seed 7 -o people.csv'
run 0 'ppdm perturb people.csv -o whole.csv --record-epsilon 2 --class group --class-in-budget'
run 0 'ppdm estimate whole.csv --attribute group'

say '3. Publish the samples. First in the plainest way: every column but the identifier. 699 records are few, so the' \
    'budget is 4.'
run 4 'ppdm perturb breast_cancer.csv -o release.csv --record-epsilon 4 --drop id'

say 'Refused: a grade that few samples have would have been published with the domain.' \
    'But that grades go from 1 to 10 is public, and breast_cancer.toml declares it.'
run 4 'ppdm perturb breast_cancer.csv -o release.csv --plan breast_cancer.toml'

say 'Refused again: neighbouring rows are alike, so the order of the rows tells values.' \
    'Rows in a random order tell nothing.'
run 0 'ppdm perturb breast_cancer.csv -o release.csv --plan breast_cancer.toml --shuffle'

say '4. The release, and what it promises. The sidecar beside it says the same to programs.'
run 0 'head -4 release.csv'
run 0 'ppdm inspect release.csv'
run 0 'head -9 release.csv.ppdm.json'

say '5. The diagnosis before and after. One record may lie; counts can be corrected, because the chances are known.'
run 0 'grep -c malignant breast_cancer.csv'
run 0 'grep -c malignant release.csv'
run 0 'ppdm estimate release.csv --attribute class'

say '6. The larger table, made by a formula. Domains may be declared one by one; those that are not are taken from' \
    'the data, rounded outward, and the report says so.'
run 0 'ppdm perturb people.csv -o people-release.csv --record-epsilon 4 --class group --class-in-budget \
    --attribute age:domain=20:80,bins=12 --domain salary=20000:150000'

say 'Its rows are in a random order already, so they can be compared one by one:' \
    'salary, age, education level and group, first the original. An empty cell is withheld.'
run 0 'cut -d, -f1,3,4,10 people.csv | head -6'
run 0 'cut -d, -f1,3,4,10 people-release.csv | head -6'

say 'What could whoever has the release and knows the method say about one person? "prior" is what the' \
    'estimated distribution alone gives away, "exact" what Bayes'\'' rule makes of the published value too.'
run 0 'ppdm attack people-release.csv --truth people.csv --with posterior'

say '7. The miner has the release and its sidecar, and nothing else. How many had each education level,' \
    'and how many of each within the two groups?'
run 0 'ppdm estimate people-release.csv --attribute elevel --by group'

say 'Only who has the original can compare. Three distributions of the commission side by side: "observed" is' \
    'what was published, "estimate" what the miner makes of it, and "true" the original.'
run 0 'ppdm estimate people-release.csv --attribute commission --truth people.csv'

say '8. A data set with the estimated distributions, for any mining tool. Its records are nobody'\''s.' \
    'Salary, age, education level and group, as before; and how often education level 0 was' \
    'published, is reconstructed, and was there at first.'
run 0 'ppdm reconstruct people-release.csv -o usable.csv'
run 0 'cut -d, -f1,3,4,10 usable.csv | head -6'
run 0 'for file in people-release.csv usable.csv people.csv; do cut -d, -f4 "$file" | grep -c "^0$"; done'
run 0 'ppdm inspect usable.csv | head -1'

say '9. What is refused. A file sorted by a column gives the column back, whatever the budget:'
run 0 '(head -1 people.csv; tail -n +2 people.csv | sort -t, -k3,3n) > sorted.csv'
run 4 'ppdm perturb sorted.csv -o sorted-release.csv --record-epsilon 4'

say 'What was reconstructed already has no chances left to be undone:'
run 3 'ppdm reconstruct usable.csv -o twice.csv'

say 'A budget of 0 would publish nothing but noise:'
run 2 'ppdm perturb people.csv -o again.csv --record-epsilon 0'

say 'A release that was changed no longer fits its sidecar:'
run 0 'echo "1,1,1,1,1,1,1,1,1,benign" >> release.csv'
run 3 'ppdm inspect release.csv'

say '10. What is the release still worth? A decision tree from the original, one from the reconstruction, and one' \
    'from the release itself, all tried on people whom none has seen. The miner has only the last two.'
run 0 'ppdm generate --function 1 --records 5000 --seed 8 -o new.csv'
run 0 'ppdm train-tree people.csv --class group --test new.csv -o tree.json --export tree.txt > report.txt'
run 0 'ppdm train-tree usable.csv --test new.csv -o usable-tree.json --export usable-tree.txt > usable-report.txt'
run 0 'ppdm train-tree people-release.csv --test new.csv -o direct.json --export direct.txt > direct-report.txt'
run 0 'pr -m -t -w 110 tree.txt usable-tree.txt'
run 0 'cat direct.txt'
run 0 'grep -h "test records" report.txt usable-report.txt direct-report.txt'
say 'And what the miner may expect of the last one, without any of those people:'
run 0 'grep -i -A 1 expect direct-report.txt'
say 'Rules about one attribute survive best. docs/technical/experiments.md says what becomes of those that link several.'

say 'Done. The temporary folder is removed.'
