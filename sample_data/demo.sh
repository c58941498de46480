#!/bin/sh
# The demo that `make demo` runs: an owner publishes a table and a miner analyses it, in a temporary folder. Every
# command is shown before it runs. The demo stops at the first command that doesn't exit as expected.
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

# run CODE COMMAND: show a command, run it, and check its exit code
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

say '1. This is the original. It has 699 samples of tissue, with nine grades and a diagnosis each.'
run 0 'head -4 breast_cancer.csv'

say '2. Choose a privacy budget for the whole record. Take the first design: each record shows two of nine attributes.' \
    'About one attribute, 20,000 such records show at most as much as 276 unperturbed ones. The class, group, is shown' \
    'in every record as well.'
run 0 'ppdm entropy --record-epsilon 2 --records 20000 --attributes 9x10'
run 0 'ppdm generate --function 1 --records 20000 --seed 7 -o people.csv'
run 0 'ppdm perturb people.csv -o whole.csv --record-epsilon 2 --class group --class-in-budget'
run 0 'ppdm estimate whole.csv --attribute group'

say '3. Publish the samples. Try the simplest way first: drop the identifier and perturb the other columns.' \
    '699 records are few, so the budget is 4.'
run 4 'ppdm perturb breast_cancer.csv -o release.csv --record-epsilon 4 --drop id'

say 'ppdm refuses, because the domain would reveal a grade that only a few samples have.' \
    'Everyone knows that grades go from 1 to 10, so the plan breast_cancer.toml declares that domain.'
run 4 'ppdm perturb breast_cancer.csv -o release.csv --plan breast_cancer.toml'

say 'ppdm refuses again, because neighbouring rows are alike: the order of the rows would reveal values.' \
    'Put the rows in a random order.'
run 0 'ppdm perturb breast_cancer.csv -o release.csv --plan breast_cancer.toml --shuffle'

say '4. Look at the release and at what it promises. Empty cells were withheld, and ppdm_recipe says which' \
    'attributes a record shows. The sidecar beside the release holds the same for programs.'
run 0 'head -4 release.csv'
run 0 'ppdm inspect release.csv'
run 0 'head -9 release.csv.ppdm.json'

say '5. Count a diagnosis before and after. Any single value may be false.' \
    'The odds are known, so ppdm estimate corrects the counts.'
run 0 'grep -c malignant breast_cancer.csv'
run 0 'grep -c malignant release.csv'
run 0 'ppdm estimate release.csv --attribute class'

say '6. Publish the larger table. Declare the domains that you know. ppdm takes the others from the data, rounds them' \
    'outward, and reports them.'
run 0 'ppdm perturb people.csv -o people-release.csv --record-epsilon 4 --class group --class-in-budget \
    --attribute age:domain=20:80,bins=12 --domain salary=20000:150000 --type age=double --type salary=double'

say 'These rows were in a random order already, so you can compare them one by one. The columns are salary, age,' \
    'education level and group, and the original comes first. Empty cells were withheld.'
run 0 'cut -d, -f1,3,4,10 people.csv | head -6'
run 0 'cut -d, -f1,3,4,10 people-release.csv | head -6'

say 'Attack the release. The attacker knows the method and guesses the values of each person. "exact" is the share of' \
    'correct guesses. "exact prior" is the share without looking at the record of the person.'
run 0 'ppdm attack people-release.csv --truth people.csv --with posterior'

say '7. Now you are the miner: you have only the release and its sidecar. How many people had each education level,' \
    'in each of the two groups?'
run 0 'ppdm estimate people-release.csv --attribute elevel --by group'

say 'The owner can compare with the original. Here are three counts of each commission: "observed" is what was' \
    'published, "estimate" is the corrected count, and "true" is the original count.'
run 0 'ppdm estimate people-release.csv --attribute commission --truth people.csv'

say '8. Make a data set for other tools. It has the estimated distributions, and its records are not real people.' \
    'The columns are the same four as before. Then compare how often education level 0 occurs in the release, in the' \
    'reconstruction and in the original.'
run 0 'ppdm reconstruct people-release.csv -o usable.csv'
run 0 'cut -d, -f1,3,4,10 usable.csv | head -6'
run 0 'for file in people-release.csv usable.csv people.csv; do cut -d, -f4 "$file" | grep -c "^0$"; done'
run 0 'ppdm inspect usable.csv | head -1'

say '9. See what ppdm refuses. If a file is sorted by a column, the order reveals that column at any budget:'
run 0 '(head -1 people.csv; tail -n +2 people.csv | sort -t, -k3,3n) > sorted.csv'
run 4 'ppdm perturb sorted.csv -o sorted-release.csv --record-epsilon 4'

say 'A reconstruction is not a release, so you cannot reconstruct it again:'
run 3 'ppdm reconstruct usable.csv -o twice.csv'

say 'A budget of 0 would publish only noise:'
run 2 'ppdm perturb people.csv -o again.csv --record-epsilon 0'

say 'If a release was changed, it no longer fits its sidecar:'
run 0 'echo "1,1,1,1,1,1,1,1,1,benign" >> release.csv'
run 3 'ppdm inspect release.csv'

say '10. How useful is the release? Train decision trees on the original, the reconstruction and the release.' \
    'Test all three on new people. A miner can train only the last two.'
run 0 'ppdm generate --function 1 --records 5000 --seed 8 -o new.csv'
run 0 'ppdm train-tree people.csv --class group --test new.csv -o tree.json --export tree.txt > report.txt'
run 0 'ppdm train-tree usable.csv --test new.csv -o usable-tree.json --export usable-tree.txt > usable-report.txt'
run 0 'ppdm train-tree people-release.csv --test new.csv -o direct.json --export direct.txt > direct-report.txt'
say 'The first tree is on the left, and the beginning of the second one on the right:'
run 0 'pr -m -t -w 110 tree.txt usable-tree.txt | head -12'
say 'The third tree was trained on the release itself:'
run 0 'cat direct.txt'
run 0 'grep -h "test records" report.txt usable-report.txt direct-report.txt'
say 'The miner can estimate the accuracy of the last tree without new people:'
run 0 'grep -i -A 1 expect direct-report.txt'
say 'Rules about one attribute survive best. docs/technical/experiments.md shows how well rules about several do.'

say 'Done. The temporary folder is removed.'
