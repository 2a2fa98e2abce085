{{/* Returns the namespace of the objects. */}}
{{- define "gpuledger.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{/* Returns the device plugin of the platform, with changes from the values, as YAML. Without a platform there is no default namespace, because any user may own a namespace with the usual name. */}}
{{- define "gpuledger.devicePlugin" -}}
{{- $plugin := dict "namespace" "" "daemonSet" "nvidia-device-plugin-daemonset" "podLabels" (dict "app" "nvidia-device-plugin-daemonset") }}
{{- if eq .Values.platform "gpu-operator" }}{{ $_ := set $plugin "namespace" "gpu-operator" }}{{ end }}
{{- if eq .Values.platform "amd" }}
{{- $plugin = dict "namespace" "kube-system" "daemonSet" "amdgpu-device-plugin-daemonset" "podLabels" (dict "name" "amdgpu-dp-ds") }}
{{- end }}
{{- with .Values.sidecar.host }}
{{- $name := eq . "dcgm-exporter" | ternary "nvidia-dcgm-exporter" "nvidia-device-plugin-mps-control-daemon" }}
{{- $_ := set $plugin "daemonSet" $name }}
{{- $_ := set $plugin "podLabels" (dict "app" $name) }}
{{- end }}
{{- range $key, $value := .Values.devicePlugin }}{{ if $value }}{{ $_ := set $plugin $key $value }}{{ end }}{{ end }}
{{- if not $plugin.namespace }}
{{- fail "exporter.mode=sidecar without platform=gpu-operator or amd needs devicePlugin.namespace, the namespace of the device plugin: find it with kubectl get daemonsets --all-namespaces. The reconciler trusts its pods, so other users must not be able to create pods there." }}
{{- end }}
{{- toYaml $plugin }}
{{- end }}

{{/* Returns the DaemonSet with the exporters' pods, as namespace/name. */}}
{{- define "gpuledger.exporters" -}}
{{- if eq .Values.exporter.mode "sidecar" -}}
{{- with include "gpuledger.devicePlugin" . | fromYaml }}{{ .namespace }}/{{ .daemonSet }}{{ end }}
{{- else -}}
{{ include "gpuledger.namespace" . }}/gpuledger
{{- end }}
{{- end }}

{{/*
Returns the DaemonSet of an earlier mode, as namespace/name, or nothing. If it has the annotation helm.sh/resource-policy, Helm
keeps it when the mode becomes sidecar.
*/}}
{{- define "gpuledger.kept" -}}
{{- if eq .Values.exporter.mode "sidecar" -}}
{{- $namespace := include "gpuledger.namespace" . }}
{{- $annotations := (default dict (lookup "apps/v1" "DaemonSet" $namespace "gpuledger").metadata).annotations | default dict }}
{{- if eq (default "" (get $annotations "helm.sh/resource-policy")) "keep" }}{{ $namespace }}/gpuledger{{ end }}
{{- end }}
{{- end }}

{{/* Returns the device plugin's DaemonSet of an earlier sidecar mode, as namespace/name, or nothing. */}}
{{- define "gpuledger.earlierPlugin" -}}
{{- $namespace := include "gpuledger.namespace" . }}
{{- if eq .Values.exporter.mode "daemonset" }}
{{- range dig "spec" "template" "spec" "containers" list (lookup "apps/v1" "Deployment" $namespace "gpuledger-reconciler") }}
{{- range .env }}{{ if eq .name "EXPORTERS" }}
{{- $first := splitList "," .value | first }}
{{- if ne $first (printf "%s/gpuledger" $namespace) }}{{ $first }}{{ end }}
{{- end }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Returns an image from the values. Arguments: root, and image with repository, tag and digest. As in image
references, the first part of the repository is a registry if it contains a dot or a port or is localhost.
*/}}
{{- define "gpuledger.image" -}}
{{- $repository := .image.repository }}
{{- with .root.Values.global.imageRegistry }}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $repository "") }}
{{- end }}
{{- $repository }}
{{- if .image.digest -}}@{{ .image.digest }}{{- else -}}:{{ .image.tag | default .root.Chart.AppVersion }}{{- end }}
{{- end }}

{{/* Returns the secrets for pulling images, as a list in YAML. */}}
{{- define "gpuledger.pullSecrets" -}}
{{- $secrets := list }}
{{- range concat .Values.imagePullSecrets .Values.global.imagePullSecrets }}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- toYaml (uniq $secrets) }}
{{- end }}

{{/* Returns the name of the Secret that contains the token for events. */}}
{{- define "gpuledger.eventsSecretName" -}}
{{ .Values.archive.events.existingSecret | default "gpuledger-events" }}
{{- end }}

{{/* Returns the labels that Helm's charts set. */}}
{{- define "gpuledger.labels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Returns the form of admission (policy or webhook), or nothing without the sidecar. */}}
{{- define "gpuledger.injector" -}}
{{- if eq .Values.exporter.mode "sidecar" }}
{{- .Values.sidecar.injector | default (include "gpuledger.servedPolicy" . | empty | ternary "webhook" "policy") }}
{{- end }}
{{- end }}

{{/* Returns the API version of MutatingAdmissionPolicy in the cluster, or nothing. */}}
{{- define "gpuledger.servedPolicy" -}}
{{- if or (semverCompare ">=1.36-0" .Capabilities.KubeVersion.Version) (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") -}}
admissionregistration.k8s.io/v1
{{- else if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy" -}}
admissionregistration.k8s.io/v1beta1
{{- end }}
{{- end }}

{{/* Returns the API version for the admission policy. */}}
{{- define "gpuledger.policyVersion" -}}
{{- include "gpuledger.servedPolicy" . | required (printf "sidecar.injector=policy needs Kubernetes 1.36, or 1.34 with the API admissionregistration.k8s.io/v1beta1 enabled; this is %s. Use sidecar.injector=webhook." .Capabilities.KubeVersion.Version) }}
{{- end }}
