{{/*
Returns the number of Nodes on which the exporter's DaemonSet runs, or nothing if the number is unknown. It is unknown without a
cluster, and without the reconciler, because only the right to install the reconciler implies the right to list Nodes.
*/}}
{{- define "gpuledger.nodes" -}}
{{- $nodes := list }}
{{- if .Values.reconciler.enabled }}{{ $nodes = (lookup "v1" "Node" "" "").items | default list }}{{ end }}
{{- if $nodes }}
{{- $pod := dict }}
{{- range include "gpuledger.documents" . | splitList "\n---\n" }}
{{- if contains "\nkind: DaemonSet\n" . }}
{{- $object := fromYaml (print . "\n") }}
{{- if eq $object.metadata.name "gpuledger" }}
{{- include "gpuledger.change" (dict "root" $ "object" $object) }}
{{- $pod = $object.spec.template.spec }}
{{- end }}
{{- end }}
{{- end }}
{{- $count := 0 }}
{{- range $nodes }}
{{- if include "gpuledger.matches" (dict "labels" (default dict .metadata.labels) "pod" $pod) }}{{ $count = add1 $count }}{{ end }}
{{- end }}
{{- $count }}
{{- end }}
{{- end }}

{{/* Returns a text that is not empty if a Node's labels satisfy a pod's node selector and its required node affinity. Arguments: labels, pod. */}}
{{- define "gpuledger.matches" -}}
{{- $labels := .labels }}
{{- $selected := true }}
{{- range $key, $value := .pod.nodeSelector }}{{ if ne (get $labels $key) $value }}{{ $selected = false }}{{ end }}{{ end }}
{{- $terms := dig "affinity" "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list .pod }}
{{- $any := not $terms }}
{{- range $terms }}
{{- $all := true }}
{{- range .matchExpressions }}
{{- $there := hasKey $labels .key }}
{{- $listed := and $there (has (get $labels .key) (default list .values)) }}
{{- $holds := dict "In" $listed "NotIn" (not $listed) "Exists" $there "DoesNotExist" (not $there) }}
{{- if and (hasKey $holds .operator) (not (get $holds .operator)) }}{{ $all = false }}{{ end }}
{{- end }}
{{- $any = or $any $all }}
{{- end }}
{{- if and $selected $any }}yes{{ end }}
{{- end }}

{{/* Returns the label by which a platform's DaemonSet selects GPU nodes. */}}
{{- define "gpuledger.nodeLabel" -}}
{{- $others := dict "gpu-operator" "nvidia.com/gpu.deploy.device-plugin=true" "openshift" "nvidia.com/gpu.deploy.device-plugin=true"
  "gke" "cloud.google.com/gke-accelerator=TYPE" "aks" "kubernetes.azure.com/accelerator=nvidia" "amd" "feature.node.kubernetes.io/amd-gpu=true" }}
{{- get $others .Values.platform | default "nvidia.com/gpu.present=true" }}
{{- end }}
