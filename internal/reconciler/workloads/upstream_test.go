package workloads_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// upstream contains owner chains that third-party controllers create. Each chain begins with the pod's controller and
// ends with the object that a person creates. Each controller sets controller: true in the owner reference.
var upstream = []struct {
	name   string
	source string // repository, commit, and the files that set the references
	levels []string
}{
	{
		"Grove", "ai-dynamo/grove fcc3b3bb operator/internal/controller: podclique/components/pod, podcliqueset/components/podclique",
		[]string{"grove.io/v1alpha1 PodClique", "grove.io/v1alpha1 PodCliqueSet"},
	},
	{
		"Dynamo on Grove", "podcliquescalinggroup/components/podclique, podcliqueset/components/podcliquescalinggroup; ai-dynamo/dynamo 015d780b deploy/operator/internal/controller_common/resource.go",
		[]string{"grove.io/v1alpha1 PodClique", "grove.io/v1alpha1 PodCliqueScalingGroup", "grove.io/v1alpha1 PodCliqueSet", "nvidia.com/v1alpha1 DynamoGraphDeployment"},
	},
	{
		"Dynamo on Deployments", "ai-dynamo/dynamo 003d1ee5 deploy/operator/internal/controller/dgd_component_workloads_reconciler.go",
		[]string{"apps/v1 ReplicaSet", "apps/v1 Deployment", "nvidia.com/v1alpha1 DynamoComponentDeployment", "nvidia.com/v1alpha1 DynamoGraphDeployment"},
	},
	{
		"Tekton", "tektoncd/pipeline 3ee1745a pkg/pod/pod.go, pkg/reconciler/pipelinerun/pipelinerun.go (a child of a pipeline in a pipeline, too)",
		[]string{"tekton.dev/v1 TaskRun", "tekton.dev/v1 PipelineRun", "tekton.dev/v1 PipelineRun"},
	},
	{
		"KubeVirt", "kubevirt/kubevirt d923fdb8 pkg/virt-controller: services/template.go, watch/vm/vm.go, watch/pool/pool.go",
		[]string{"kubevirt.io/v1 VirtualMachineInstance", "kubevirt.io/v1 VirtualMachine", "pool.kubevirt.io/v1beta1 VirtualMachinePool"},
	},
	{
		"KubeVirt replica set", "kubevirt/kubevirt d923fdb8 pkg/virt-controller/watch/replicaset/replicaset.go",
		[]string{"kubevirt.io/v1 VirtualMachineInstance", "kubevirt.io/v1 VirtualMachineInstanceReplicaSet"},
	},
	{
		"KServe on Knative", "knative/serving 98e5ef90 pkg/reconciler: revision/resources/deploy.go, configuration/resources/revision.go, service/resources/configuration.go; kserve/kserve aaac4e29 pkg/controller/v1beta1/inferenceservice/components/predictor.go",
		[]string{
			"apps/v1 ReplicaSet", "apps/v1 Deployment", "serving.knative.dev/v1 Revision", "serving.knative.dev/v1 Configuration",
			"serving.knative.dev/v1 Service", "serving.kserve.io/v1beta1 InferenceService",
		},
	},
	{
		"KServe for large models", "kserve/kserve aaac4e29 pkg/controller/v1alpha2/llmisvc/workload_multi_node.go",
		[]string{"apps/v1 StatefulSet", "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet", "serving.kserve.io/v1alpha2 LLMInferenceService"},
	},
	{
		"Katib", "kubeflow/katib 33c8ff4e pkg/controller.v1beta1: trial/trial_controller.go, experiment/experiment_controller_util.go",
		[]string{"kubeflow.org/v1 PyTorchJob", "kubeflow.org/v1beta1 Trial", "kubeflow.org/v1beta1 Experiment"},
	},
	{
		"Slinky", "SlinkyProject/slurm-operator f2ed3fc5 internal/controller/nodeset/utils/utils.go; nothing owns a NodeSet",
		[]string{"slinky.slurm.net/v1beta1 NodeSet"},
	},
	{
		"Slinky login", "SlinkyProject/slurm-operator f2ed3fc5 internal/builder/loginbuilder/login_app.go",
		[]string{"apps/v1 ReplicaSet", "apps/v1 Deployment", "slinky.slurm.net/v1beta1 LoginSet"},
	},
	{
		"NIM", "NVIDIA/k8s-nim-operator f63f74d7 internal/controller: platform/standalone/nimservice.go, nimpipeline_controller.go",
		[]string{"apps/v1 ReplicaSet", "apps/v1 Deployment", "apps.nvidia.com/v1alpha1 NIMService", "apps.nvidia.com/v1alpha1 NIMPipeline"},
	},
	{
		"NIM cache", "NVIDIA/k8s-nim-operator f63f74d7 internal/controller/nimcache_controller.go",
		[]string{"batch/v1 Job", "apps.nvidia.com/v1alpha1 NIMCache"},
	},
	{
		"NIM build", "NVIDIA/k8s-nim-operator f63f74d7 internal/controller/nimbuild_controller.go",
		[]string{"apps.nvidia.com/v1alpha1 NIMBuild"},
	},
	{
		"AppWrapper", "project-codeflare/appwrapper b47a99ee internal/controller/appwrapper/resource_management.go",
		[]string{"ray.io/v1 RayCluster", "workload.codeflare.dev/v1beta2 AppWrapper"},
	},
	{
		"Spark executor", "apache/spark ExecutorPodsAllocator; kubeflow/spark-operator 38082f33 internal/controller/sparkapplication/submission.go",
		[]string{"v1 Pod", "sparkoperator.k8s.io/v1beta2 SparkApplication"},
	},
	{
		"Spark Connect", "kubeflow/spark-operator 38082f33 internal/controller/sparkconnect/reconciler.go",
		[]string{"sparkoperator.k8s.io/v1alpha1 SparkConnect"},
	},
	{
		"Ray cron job", "ray-project/kuberay feeaf72f ray-operator/controllers/ray/raycronjob_controller.go",
		[]string{"ray.io/v1 RayCluster", "ray.io/v1 RayJob", "ray.io/v1 RayCronJob"},
	},
}

// TestUpstreamOwners checks that each chain ends at the object that a person creates. The shipped role must permit
// reading exactly the kinds in these chains.
func TestUpstreamOwners(t *testing.T) {
	readable := ownersOfManifest(t)
	for _, tt := range upstream {
		t.Run(tt.name, func(t *testing.T) {
			t.Log(tt.source)
			for _, level := range tt.levels {
				if group, resource := rbacNameOf(t, level); !readable[group+"/"+resource] {
					t.Errorf("the role cannot get %s.%s", resource, group)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				owners := chain(tt.levels...)
				w := newWorld(t, nil, objects(owners, gpuPod("p", "1", owners[0]))...)
				w.lead()
				defer w.stop()
				direct, root := owners[0], owners[len(owners)-1]
				want := []string{podLine("p", direct.Kind, direct.Name, root.Kind, root.Name, string(root.UID))}
				if diff := cmp.Diff(want, w.page("gpuledger_pod_info", "gpuledger_workload_walks_stopped")); diff != "" {
					t.Errorf("series (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestScheduledSpark checks that the owner chain of a scheduled Spark application ends at the SparkApplication of one
// run. The Spark operator does not set controller: true in the owner reference to the ScheduledSparkApplication.
func TestScheduledSpark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("sparkoperator.k8s.io/v1beta2 SparkApplication", "sparkoperator.k8s.io/v1beta2 ScheduledSparkApplication")
		owners[0].OwnerReferences[0].Controller = nil
		w := newWorld(t, nil, objects(owners, gpuPod("driver", "1", owners[0]))...)
		w.lead()
		defer w.stop()
		want := []string{podLine("driver", "SparkApplication", "level0", "SparkApplication", "level0", string(owners[0].UID))}
		if diff := cmp.Diff(want, w.page("gpuledger_pod_info", "gpuledger_workload_walks_stopped")); diff != "" {
			t.Errorf("series (-want +got):\n%s", diff)
		}
	})
}

func rbacNameOf(t *testing.T, level string) (group, resource string) {
	t.Helper()
	apiVersion, kind, _ := strings.Cut(level, " ")
	for _, k := range kinds {
		if k.groupVersion == apiVersion && k.kind == kind {
			if group, _, ok := strings.Cut(apiVersion, "/"); ok {
				return group, k.resource
			}
			return "", k.resource
		}
	}
	t.Fatalf("%s is not in the list of kinds", level)
	return "", ""
}

func ownersOfManifest(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../../manifests/base/reconciler/workloads.yaml")
	if err != nil {
		t.Fatal(err)
	}
	readable := make(map[string]bool)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind != "ClusterRole" || role.Labels["gpuledger.io/owners"] != "true" {
			continue
		}
		for _, rule := range role.Rules {
			if !slices.Equal(rule.Verbs, []string{"get"}) {
				t.Errorf("%v: verbs %v, want only get", rule.Resources, rule.Verbs)
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					readable[group+"/"+resource] = true
				}
			}
		}
	}
	return readable
}
