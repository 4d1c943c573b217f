/** What is run on an instance, one command after the other: `up` ends when the last of them says that all answers. Cost: none. */
import { Association } from "@pulumi/aws/ssm/association.js";
import { Document } from "@pulumi/aws/ssm/document.js";
import * as pulumi from "@pulumi/pulumi";
import { type InstanceTask, SECRET_VERSIONS } from "../../infra/plan/aws/machine/tasks.ts";
import type { AwsContext } from "../../infra/plan/aws/types.ts";

interface InstanceTasksArgs {
  readonly context: AwsContext;
  readonly tasks: readonly InstanceTask[];
  readonly instanceId: pulumi.Input<string>;
  /** Another text where a secret has another value. */
  readonly secretVersions: pulumi.Input<string>;
}

export class InstanceTasks extends pulumi.ComponentResource {
  constructor(name: string, args: InstanceTasksArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:InstanceTasks", name, {}, opts);

    let before: readonly Association[] = [];
    for (const task of args.tasks) {
      const document = this.#createDocument(name, args, task);
      before = [this.#createAssociation(name, args, task, document, before)];
    }
    this.registerOutputs({});
  }

  #createDocument(name: string, { context }: InstanceTasksArgs, task: InstanceTask): Document {
    return new Document(
      `${name}-${task.name}-document`,
      {
        name: task.document.name,
        documentType: "Command",
        documentFormat: "JSON",
        targetType: "/AWS::EC2::Instance",
        content: task.document.content,
        tags: { ...context.tags, Name: task.document.name },
      },
      { parent: this },
    );
  }

  #createAssociation(
    name: string,
    { context, instanceId, secretVersions }: InstanceTasksArgs,
    { name: task, document: { name: documentName }, waitSeconds, readsSecrets }: InstanceTask,
    document: Document,
    before: readonly Association[],
  ): Association {
    return new Association(
      `${name}-${task}`,
      {
        name: document.name,
        targets: [{ key: "InstanceIds", values: [instanceId] }],
        ...(readsSecrets ? { parameters: { [SECRET_VERSIONS]: secretVersions } } : {}),
        waitForSuccessTimeoutSeconds: waitSeconds,
        tags: { ...context.tags, Name: documentName },
      },
      {
        parent: this,
        dependsOn: [...before],
        // The provider waits for one that it makes, and not for one that it changes.
        replaceOnChanges: ["parameters", "targets"],
      },
    );
  }
}
