"""Messy exports with known truth, for `ppdm plan`: how many reach a release by two commands and three answers.

`python -m tests.experiments.exports [FIRST SEED] [NUMBER]` makes exports, runs the real commands on each, answers
the question marks as a person who knows the truth, and prints what went wrong.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HEADERS = {
    "id": "Fall-Nr,AktenNr,Vorgang,case_id,record,Ref.,no_dossier,N° dossier,expediente,folio,Lfd. Nr.,uuid"
    ",Nr.,Belegnummer,Fallnummer,encounter,episode_no,ID,num,clave,id_episodio,numéro",
    "person": "Patient,PatientenNr,Versichertennr.,patient_id,member,customer no,no_patient,id_paciente,NIR,DNI"
    ",Pat.-Nr.,Kundennummer,KVNR,subject,mrn,numero_assure,num_paciente,NHC,person_id,client",
    "name": "Name,Nachname,Familienname,Patientenname,last_name,surname,full name,nom,Nom de famille,apellidos"
    ",Pat_Name,Zuname,Versicherter,patient name,LastName,Surname,nom_patient,nom usuel,apellido1,nombre y apellidos",
    "first": "Vorname,Rufname,first_name,given name,prénom,Prenom,nombre,Nombre de pila"
    ",VORNAME,Vorname_2,forename,FirstName,prénoms,prenom_patient,nombre_paciente",
    "mail": "E-Mail,Mailadresse,email_addr,contact,courriel,adresse mél,correo,Correo electrónico"
    ",eMail,Email-Adresse,E_Mail_privat,e-mail address,mél,mail,correo-e",
    "phone": "Telefon,Tel.,Handy,Rufnummer,phone,mobile,cell,téléphone,Portable,teléfono,móvil"
    ",Telefonnummer,Mobil,Tel_privat,phone_number,telephone,Tél.,n° tel,tfno",
    "street": "Straße,Anschrift,Wohnadresse,street,home address,addr1,adresse,rue,dirección,domicilio,calle"
    ",Str.,Adresse,Wohnort Straße,address,address_line_1,voie,adresse postale,domicilio_calle",
    "prose": "Bemerkung,Anmerkungen,Freitext,Notiz,remarks,comment,notes,remarques,commentaire,observaciones,notas"
    ",Befund,Text,Kommentar,Begründung,note,description,free_text,motif,descripción,comentario",
    "ward": "Station,Abteilung,Fachbereich,ward,department,unit,service,pôle,departamento,unidad"
    ",Klinik,Stat.,OE,clinic,site,unité,centre,servicio,planta",
    "flag": "Raucher,Notfall,verstorben,smoker,emergency,insured,fumeur,décès,fumador,urgente"
    ",Diabetes,Allergie,Beatmet,ICU,fraktur,diabète,alérgico",
    "sex": "Geschlecht,sex,gender,sexe,sexo,Geschl.,SEX,genre,género",
    "age": "Alter,Alter bei Aufnahme,age,age_years,âge,edad,Alter_J,Lebensalter,AGE,age at entry,ans,años",
    "amount": "Kosten (€),Betrag,Erlös,cost,total amount,charges,coût,montant,importe,coste"
    ",Rechnungsbetrag,Netto,price,billed,prix,tarif,precio,total",
    "number": "Gewicht,Größe cm,CRP,weight,height,pulse,poids,taille,peso,talla"
    ",BMI,Hb,RR sys,temperature,score,tension,talla_cm,glucosa",
    "date": "Aufnahme,Entlassen am,OP-Datum,admitted,discharge_date,date d'entrée,sortie,fecha_ingreso,alta"
    ",Datum,Aufnahmedatum,Termin,visit date,start,date_sortie,fecha,f_alta",
    "born": "Geburtsdatum,geb.,date_of_birth,dob,date de naissance,fecha de nacimiento"
    ",Geb.-Datum,GebDat,Geburtstag,birth_date,DOB,naissance,f_nacimiento,nacido",
    "zip": "PLZ,Postleitzahl,postcode,zip,code postal,CP,código postal"
    ",Plz,PLZ Wohnort,ZIP,zip_code,postal,c.p.,cod_postal",
    "code": "ICD,Diagnose,OPS,dx_code,procedure,diag principal,cim10,diagnóstico"
    ",Hauptdiagnose,ICD-10,DRG,icd10,cpt,acte,dp,cie10",
}
"""What columns are called in German, English, French and Spanish."""
FORBIDDEN = {"id", "person", "name", "first", "mail", "phone", "street", "prose"}
ODD = ("k.A.", "-9", "unbekannt", "n/a", "unknown", "inconnu", "desconocido", "nicht erhoben", "fehlt", "s/o")
ODD += (
    "keine Angabe",
    "?",
    "-1",
    "99999",
    "#N/A",
    "s. Akte",
    "sin dato",
    "n.d.",
    "--",
    "missing",
    "entfällt",
    "leer",
)
ODD_WORDS = ("k.A.", "n/a", "unknown", "unbekannt", "-", "keine Angabe", "?", "missing", "n.d.", "--", "#N/A")
"""Spellings of no value in text too."""
SYLLABLES = re.findall(
    r"\w+", "ba be bor da del ei fa gan hu jo ka kel la len mar mei na nor pe ral schu ta ter vi"
)
WORDS = re.findall(
    r"\w+",
    "der Patient klagt über Schmerzen seit Tagen follow up advised no acute findings sans particularité à revoir "
    "dans mois control en dos semanas sin cambios Verlauf gut",
)
FLAGS = (("ja", "nein"), ("J", "N"), ("yes", "no"), ("1", "0"), ("true", "false"), ("oui", "non"), ("si", "no"))
WARDS = ("Innere", "Surgery", "Pédiatrie", "Urgencias", "Geriatrie", "Radiology", "Maternité", "Cardiología")
MOST_ANSWERS = 3


@dataclass(frozen=True)
class Column:
    """A column as it is in truth: what it is, its type, the labels that a release must have, its public ends."""

    kind: str
    cells: list[str]
    dtype: str
    labels: frozenset[str] = frozenset()
    ends: str = ""
    form: str = ""


@dataclass
class Export:
    """A made export with its truth."""

    data: bytes
    columns: dict[str, Column]
    odd: set[str] = field(default_factory=set)
    """The columns that have odd cells, all of which mean no value."""


def made(seed: int) -> Export:
    """Make an export: how it is written, which columns it has, and their troubles follow from the seed."""
    rng = np.random.default_rng([2026, seed])
    rows = int(rng.choice([150, 400, 1200, 3000, 8000]))
    separator = str(rng.choice([",", ";", ";", "\t", "|"]))
    comma = separator != "," and rng.random() < 0.6
    kinds = ["id", "name", "ward", "age", "flag", "number", "date"]
    chances = {
        "person": 0.4, "first": 0.4, "mail": 0.4, "phone": 0.4, "street": 0.4, "prose": 0.5, "sex": 0.5,
        "amount": 0.7, "date": 0.5, "born": 0.4, "zip": 0.5, "code": 0.4, "number": 0.4,
    }  # fmt: skip
    kinds += [k for k, p in chances.items() if rng.random() < p]
    patients = rng.integers(0, max(rows * 2 // 3, 1), rows) if "person" in kinds else np.arange(rows)
    columns = dict[str, Column]()
    for kind in (kinds[i] for i in rng.permutation(len(kinds))):
        names = [n for n in HEADERS[kind].split(",") if n not in columns]
        columns[str(rng.choice(names))] = _column(rng, kind, rows, patients, comma)
    odd = set[str]()
    spellings = [str(s) for s in rng.choice(ODD, int(rng.integers(1, 4)), replace=False)]
    for name, column in columns.items():
        own = [s for s in spellings if s != "99999" or column.kind != "amount"] or ["k.A."]
        if column.kind in ("age", "amount", "number", "date", "born"):
            for row in rng.choice(rows, max(1, round(0.005 * rows)), replace=False):
                column.cells[row] = str(rng.choice(own))
            odd.add(name)
    words = np.random.default_rng([2027, seed])
    for name in [n for n, c in columns.items() if c.kind in ("ward", "sex", "flag") and words.random() < 0.2]:
        for row in words.choice(rows, max(1, round(0.02 * rows)), replace=False):
            columns[name].cells[row] = str(words.choice(ODD_WORDS))
        odd.add(name)
    file = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if rng.random() < 0.2 else csv.QUOTE_MINIMAL
    writer = csv.writer(
        file, delimiter=separator, quoting=quoting, lineterminator=str(rng.choice(["\n", "\r\n"]))
    )
    writer.writerow(columns)
    writer.writerows(zip(*(c.cells for c in columns.values()), strict=True))
    encoding, text = str(rng.choice(["utf-8", "utf-8-sig", "cp1252", "cp850"])), file.getvalue()
    encoding = "cp1252" if encoding == "cp850" and "€" in text else encoding
    return Export(text.encode(encoding), columns, odd)


def _word(rng: np.random.Generator, number: int = 2) -> str:
    return "".join(rng.choice(SYLLABLES, number)).capitalize()


def _column(rng: np.random.Generator, kind: str, rows: int, patients: np.ndarray, comma: bool) -> Column:
    """Make a column of a kind; what a person has is the same in each of their rows."""

    def each(make: Callable[[], str]) -> list[str]:
        own = [make() for _ in range(int(patients.max()) + 1)]
        return [own[p] for p in patients]

    def decimals(values: np.ndarray, thousands: bool = False) -> list[str]:
        shown = [f"{v:,.2f}" if thousands else f"{v:.2f}" for v in values]
        return [s.translate(str.maketrans(",.", ".,")) for s in shown] if comma else shown

    if kind in ("date", "born"):
        return _dates(rng, kind, rows)
    if kind == "id":
        start, step = (
            int(rng.integers(1, 10**6)),
            rng.permutation(rows) if rng.random() < 0.5 else np.arange(rows),
        )
        shapes = (
            lambda i: str(start + i),
            lambda i: f"F{start + i:08d}",
            lambda i: f"{rng.integers(1 << 62):016x}",
        )
        shape = shapes[rng.integers(3)]
        return Column(kind, [shape(int(i)) for i in step], "")
    if kind == "person":
        shape, offset = str(rng.choice(["P{:07d}", "{:d}", "{:03d}-{:04d}"])), int(rng.integers(10**5, 10**6))
        numbers = rng.permutation(rows * 7)[: int(patients.max()) + 1] + offset
        return Column(kind, [shape.format(int(numbers[p]), int(numbers[p]) % 9973) for p in patients], "")
    if kind in ("name", "first"):
        both, pool = rng.random() < 0.3, [_word(rng) for _ in range(int(rng.choice([40, 300, 5000])))]
        return Column(
            kind, each(lambda: f"{rng.choice(pool)}, {_word(rng)}" if both else str(rng.choice(pool))), ""
        )
    if kind == "mail":
        return Column(
            kind, each(lambda: f"{_word(rng).lower()}.{_word(rng).lower()}@{_word(rng).lower()}.org"), ""
        )
    if kind == "phone":
        start = str(rng.choice(["+49 ", "0", "(0", "+33 "]))
        shape = start + str(rng.choice(["{:d} {:d}", "{:d}/{:d}", "{:d}-{:d}"])).replace(
            "}", "})", start == "(0"
        )
        return Column(kind, each(lambda: shape.format(rng.integers(30, 999), rng.integers(10**5, 10**7))), "")
    if kind == "street":
        shape = str(rng.choice(["{}straße {}", "{1} {0} Street", "{1} rue {0}", "Calle {} {}", "{}weg {}a"]))
        return Column(kind, each(lambda: shape.format(_word(rng), rng.integers(1, 150))), "")
    if kind == "prose":
        blank, most = rng.random() < 0.5, int(rng.choice([5, 14]))
        texts = [" ".join(rng.choice(WORDS, rng.integers(2, most))) for _ in range(rows)]
        return Column(kind, ["" if blank and rng.random() < 0.6 else t for t in texts], "")
    if kind in ("ward", "flag", "sex"):
        some = {
            "ward": WARDS[: rng.integers(3, 9)],
            "flag": FLAGS[rng.integers(len(FLAGS))],
            "sex": ("m", "w", "d"),
        }
        labels = [str(v) for v in some[kind]]
        shares = np.array([0.5, 0.4, 0.1]) if kind == "sex" else rng.dirichlet(np.full(len(labels), 8))
        cells = rng.choice(labels, rows, p=shares).tolist()
        common = frozenset(v for v in labels if cells.count(v) >= 30)  # enough where persons' rows are left out
        dtype = {"1": "int64", "true": "bool"}.get(labels[0], "string")
        return Column(kind, cells, dtype, common)
    if kind == "age":
        return Column(kind, rng.integers(0, 100, rows).astype(str).tolist(), "int64")
    if kind == "amount":
        values = rng.lognormal(7, float(rng.choice([0.5, 1.5])), rows)
        return Column(kind, decimals(values, thousands=comma), "double", ends="0:20000")
    if kind == "number":
        return Column(kind, decimals(rng.normal(80, 12, rows)), "double", ends="0:200")
    if kind == "zip":
        pool = [f"{z:05d}" for z in [1067, *rng.integers(1000, 99999, 200)]]
        return Column(kind, rng.choice(pool, rows).tolist(), "string")
    letters = [f"{c}{i:02d}.{j}" for c in "ABCDEFGHIJK" for i in range(100) for j in range(3)]
    return Column(
        kind, rng.choice(letters, rows, p=rng.dirichlet(np.full(len(letters), 0.3))).tolist(), "string"
    )


def _dates(rng: np.random.Generator, kind: str, rows: int) -> Column:
    """Make dates of one shape, or of two that differ at sight."""
    forms = [["%d.%m.%Y"], ["%Y-%m-%d"], ["%d/%m/%Y"], ["%m/%d/%Y"], ["%d.%m.%Y", "%Y-%m-%d"], ["%d-%m-%Y"]]
    several = forms[rng.integers(len(forms))]
    clock = " %H:%M" if kind == "date" and rng.random() < 0.3 else ""
    first, span = ("1930-01-01", 30_000) if kind == "born" else ("2019-01-15", 1500)
    days = np.datetime64(first, "m") + rng.integers(0, span * 1440, rows)
    cells = [d.astype(object).strftime(str(rng.choice(several)) + clock) for d in days]
    return Column(kind, cells, "timestamp[ms]" if clock else "date32[day]", form=several[0] + clock)


# -- a person who knows the truth


def answer(question: str, export: Export) -> list[str]:
    """Return the option that answers a question mark by the truth; nothing where no option does."""
    persons = [n for n, c in export.columns.items() if c.kind == "person"]
    if question == "person":
        return ["--person", persons[0] if persons else ""]
    name = next((n for n in sorted(export.columns, key=len, reverse=True) if f".{n}" in question), "")
    column = export.columns.get(name)
    if column is None:
        return []
    if column.kind in FORBIDDEN:
        return ["--drop", name]
    if question.startswith("csv.formats."):
        return ["--date-format", f"{name}={column.form}"]
    if question.startswith("csv.odd."):
        return ["--odd", "null"]
    if question.startswith("attributes.") and question.endswith(".domain"):
        return ["--domain", f"{name}={column.ends}"] if column.ends else ["--attribute", f"{name}:domain=data"]
    return []


def faults(export: Export, folder: Path, privacy: tuple[str, ...] = ("--record-epsilon", "4")) -> list[str]:
    """Plan, answer and perturb by the real command line; return what is wrong, nothing for a success."""
    (folder / "e.csv").write_bytes(export.data)
    code, out = _ppdm(folder, "plan", "e.csv", "-o", "p.toml", *privacy, "--json", "--force")
    if code:
        return [f"plan failed: {out}"]
    asked = json.loads(out)["questions"]
    answers = list(dict.fromkeys(tuple(answer(q, export)) for q in asked))
    if () in answers:
        return [f"nobody can answer {asked}"]
    wrong = [f"{len(answers)} answers: {asked}"] if len(answers) > MOST_ANSWERS else []
    options = [o for a in answers for o in a]
    code, out = _ppdm(folder, "perturb", "e.csv", "-o", "r.parquet", "--plan", "p.toml", *options, "--force")
    return wrong + ([f"perturb failed: {out}"] if code else _mistakes(export, folder / "r.parquet.ppdm.json"))


def _ppdm(folder: Path, *args: str) -> tuple[int, str]:
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "ppdm_cli", *args]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr.strip()


def _mistakes(export: Export, sidecar: Path) -> list[str]:
    """Return what a release has that it must not have, and what it lacks."""
    there: dict[str, Any] = {a["name"]: a for a in json.loads(sidecar.read_text("utf-8"))["attributes"]}
    wrong = []
    for name, column in export.columns.items():
        own = there.get(name)
        if column.kind in FORBIDDEN:
            wrong += [f"{name} ({column.kind}) is published"] * (own is not None)
        elif own is None and column.kind in ("zip", "code") and 2 * len({*column.cells}) > len(column.cells):
            continue  # mostly unique: it may be dropped
        elif own is None:
            wrong.append(f"{name} ({column.kind}) is dropped")
        elif own["dtype"] != column.dtype:
            wrong.append(f"{name} ({column.kind}) is {own['dtype']}, not {column.dtype}")
        elif column.labels and not column.labels <= {str(v).lower() for v in own["categories"]} | {
            *own["categories"]
        }:
            wrong += [f"{name} ({column.kind}) lacks labels"] * (column.dtype == "string")
        elif column.kind in ("zip", "code") and own["N"] > 40:
            wrong.append(f"{name} ({column.kind}) has {own['N']} values")
        if own is not None and name in export.odd and not own["nulls"]:
            wrong.append(f"{name} ({column.kind}) has no place for null")
    return wrong


if __name__ == "__main__":
    first, number = (int(a) for a in (*sys.argv[1:], *("0", "60")[len(sys.argv) - 1 :]))
    done = 0
    for seed in range(first, first + number):
        with tempfile.TemporaryDirectory() as folder:
            found = faults(made(seed), Path(folder))
        done += not found
        for fault in found:
            print(f"{seed}: {fault}", flush=True)
    print(f"{done} of {number} exports reach a good release")
