/** Doc comments of the stack file's keys, beside their schemas in the sources. */
import { join } from "node:path";
import ts from "typescript";
import { projectRoot } from "../../../scripts/program/stack-file.ts";

/** Parts of a schema's definition that hold another schema. */
type InnerPart = "innerType" | "element" | "valueType";

/** The static type of a schema, which has the same parts as the schema, and their comments. */
export class SchemaType {
  readonly #checker: ts.TypeChecker;
  readonly #type: ts.Type;

  constructor(checker: ts.TypeChecker, type: ts.Type) {
    this.#checker = checker;
    this.#type = type;
  }

  inner(part: InnerPart): SchemaType {
    return this.#of(this.#definition(part));
  }

  option(index: number): SchemaType {
    const options = this.#definition("options") as ts.TypeReference;
    return this.#of(defined(this.#checker.getTypeArguments(options)[index], `option ${index}`));
  }

  key(name: string): { readonly sentence: string; readonly type: SchemaType } {
    const key = propertyOf(this.#definition("shape"), name);
    return {
      sentence: sentenceOf(key, this.#checker) || sentenceOfValue(key, this.#checker),
      type: this.#of(this.#checker.getTypeOfSymbol(key)),
    };
  }

  #definition(part: string): ts.Type {
    return ["_zod", "def", part].reduce(
      (type, name) => this.#checker.getTypeOfSymbol(propertyOf(type, name)),
      this.#type,
    );
  }

  #of(type: ts.Type): SchemaType {
    return new SchemaType(this.#checker, type);
  }
}

/** Exports of sources, by name. */
export class Sources {
  readonly #checker: ts.TypeChecker;
  readonly #exports: ReadonlyMap<string, ts.Symbol>;

  /** @param files - Relative to the project. */
  constructor(files: readonly string[]) {
    const { config } = ts.readConfigFile(join(projectRoot, "tsconfig.json"), ts.sys.readFile);
    const { options } = ts.parseJsonConfigFileContent({ ...config, files, include: [] }, ts.sys, projectRoot);
    const paths = files.map((file) => join(projectRoot, file));
    const program = ts.createProgram(paths, { ...options, noEmit: true, types: [] });
    this.#checker = program.getTypeChecker();
    this.#exports = new Map(
      paths.flatMap((path) => {
        const module = this.#checker.getSymbolAtLocation(defined(program.getSourceFile(path), path));
        return this.#checker
          .getExportsOfModule(defined(module, path))
          .map((symbol) => [symbol.name, symbol] as const);
      }),
    );
  }

  /** `schema` of a row of a table. */
  schema(table: string, row: number): SchemaType {
    const type = [String(row), "schema"].reduce(
      (outer, name) => this.#checker.getTypeOfSymbol(propertyOf(outer, name)),
      this.#checker.getTypeOfSymbol(this.#named(table)),
    );
    return new SchemaType(this.#checker, type);
  }

  /** Comment of a member of an interface, at any depth; empty without a comment. */
  memberSentence(name: string, path: readonly string[]): string {
    let type = this.#checker.getDeclaredTypeOfSymbol(this.#named(name));
    let sentence = "";
    for (const key of path) {
      const member = type.getProperty(key);
      if (member === undefined) return "";
      sentence = sentenceOf(member, this.#checker);
      type = this.#checker.getNonNullableType(this.#checker.getTypeOfSymbol(member));
    }
    return sentence;
  }

  #named(name: string): ts.Symbol {
    return defined(this.#exports.get(name), name);
  }
}

/** Comment in one line. */
function sentenceOf(symbol: ts.Symbol, checker: ts.TypeChecker): string {
  return ts.displayPartsToString(symbol.getDocumentationComment(checker)).replaceAll(/\s+/g, " ").trim();
}

/** Schemas of many keys, whose comments do not describe a single key. */
const FORMS: readonly string[] = ["labelName", "publishedTritonPorts"];

/** Comment of a key's value that has a name: `schedule`, `machine: machine.optional()`, `z.enum(RUNTIMES)`. */
function sentenceOfValue(key: ts.Symbol, checker: ts.TypeChecker): string {
  const [declaration] = key.declarations ?? [];
  if (declaration === undefined) return "";
  if (ts.isPropertyAssignment(declaration)) return sentenceOfRoot(declaration.initializer, checker);
  return ts.isShorthandPropertyAssignment(declaration)
    ? sentenceOfNamed(checker.getShorthandAssignmentValueSymbol(declaration), checker)
    : "";
}

/** `pool` of `pool.extend({ … }).optional()`, and `RUNTIMES` of `z.array(z.enum(RUNTIMES))`. */
function sentenceOfRoot(expression: ts.Expression, checker: ts.TypeChecker): string {
  if (ts.isIdentifier(expression)) return sentenceOfNamed(checker.getSymbolAtLocation(expression), checker);
  if (!ts.isCallExpression(expression) || !ts.isPropertyAccessExpression(expression.expression)) return "";
  const { expression: object } = expression.expression;
  const [argument] = expression.arguments;
  const isOfZod = ts.isIdentifier(object) && object.text === "z";
  if (!isOfZod) return sentenceOfRoot(object, checker);
  return argument === undefined ? "" : sentenceOfRoot(argument, checker);
}

/** Comment of a named value, or of the named value that it is made from. */
function sentenceOfNamed(name: ts.Symbol | undefined, checker: ts.TypeChecker): string {
  if (name === undefined || FORMS.includes(name.name)) return "";
  const symbol = name.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(name) : name;
  const { valueDeclaration } = symbol;
  const own = isFirstOfFile(valueDeclaration) ? "" : sentenceOf(symbol, checker);
  if (own !== "" || valueDeclaration === undefined || !ts.isVariableDeclaration(valueDeclaration)) return own;
  return valueDeclaration.initializer === undefined
    ? ""
    : sentenceOfRoot(valueDeclaration.initializer, checker);
}

/** True when the declaration's comment is that of its file. */
function isFirstOfFile(declaration: ts.Declaration | undefined): boolean {
  if (declaration === undefined) return false;
  return declaration.getSourceFile().statements[0] === declaration.parent.parent;
}

function propertyOf(type: ts.Type, name: string): ts.Symbol {
  return defined(type.getProperty(name), name);
}

function defined<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new Error(`The sources have no ${name}.`);
  return value;
}
