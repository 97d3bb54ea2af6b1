{{/* The labels of every object: config/default's, and Helm's. */}}
{{- define "holdfast.labels" -}}
app.kubernetes.io/part-of: holdfast
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end }}

{{/*
The objects of a file that hack/chart/sync copied from config/, with the labels, in the release's namespace.
Takes {root, file}, and annotations and labels that every object gets.
*/}}
{{- define "holdfast.objects" -}}
{{- $root := .root -}}
{{- $text := $root.Files.Get .file | replace "holdfast-system" $root.Release.Namespace -}}
{{- range regexSplit "(?m)^---\\s*$" (required (printf "%s is not in the chart: run hack/chart/sync" .file) $text) -1 }}
{{- $object := fromYaml . }}
{{- if $object }}
{{- if not $object.kind }}{{ fail (printf "%s cannot be read: %s" $.file (toJson $object)) }}{{ end }}
{{- $_ := set $object.metadata "labels" (merge (include "holdfast.labels" $root | fromYaml) ($object.metadata.labels | default dict)) }}
{{- with $.labels }}
{{- $_ := set $object.metadata "labels" (merge (deepCopy .) $object.metadata.labels) }}
{{- end }}
{{- with $.annotations }}
{{- $_ := set $object.metadata "annotations" (merge (deepCopy .) ($object.metadata.annotations | default dict)) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{/* A webhook configuration, for which cert-manager writes the authority where the values have none. Takes {root, file}. */}}
{{- define "holdfast.webhook" -}}
{{- $authority := .root.Values.certificates.caBundle -}}
{{- if $authority -}}
{{- $object := include "holdfast.objects" . | trimPrefix "\n---\n" | fromYaml -}}
{{- range $object.webhooks }}{{ $_ := set .clientConfig "caBundle" (b64enc $authority) }}{{ end }}
---
{{ toYaml $object }}
{{- else -}}
{{- include "holdfast.objects" (merge (dict "annotations" (dict "cert-manager.io/inject-ca-from" (printf "%s/holdfast-webhook" .root.Release.Namespace))) .) }}
{{- end }}
{{- end }}

{{/* The matchConditions without the one that asks for a network's name. Takes the list. */}}
{{- define "holdfast.conditionsOfEveryPod" -}}
{{- $kept := list }}
{{- range . }}{{ if ne .name "a-network-may-be-guarded" }}{{ $kept = append $kept . }}{{ end }}{{ end }}
{{- toYaml $kept }}
{{- end }}

{{/* An image. A released chart names the digests of its images in its annotations. Takes {root, image, program}. */}}
{{- define "holdfast.image" -}}
{{- $released := "" -}}
{{- with .root.Chart.Annotations }}{{ $released = index . (printf "holdfast.dev/%s-digest" $.program) }}{{ end -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else if .image.tag -}}
{{ .image.repository }}:{{ .image.tag }}
{{- else -}}
{{ .image.repository }}:{{ .root.Chart.AppVersion }}{{ with $released }}@{{ . }}{{ end }}
{{- end }}
{{- end }}

{{/* The port of an address "host:port", or the default. Takes {address, default}. */}}
{{- define "holdfast.port" -}}
{{- if eq .address "0" }}{{ fail "manager.configuration.server, agent.configuration.server: \"0\" turns off what the probes and Services of the chart need: expected host:port" }}{{ end -}}
{{ regexFind "[0-9]+$" .address | default .default }}
{{- end }}

{{/* The arguments of a program. Takes its log level. */}}
{{- define "holdfast.runArguments" -}}
{{- $arguments := list "run" "--config=/etc/holdfast/config.yaml" -}}
{{- if ne . "info" }}{{ $arguments = append $arguments (printf "--zap-log-level=%s" .) }}{{ end -}}
{{ toJson $arguments }}
{{- end }}

{{/* What differs on a platform: the socket of its container runtime, the namespace of the pools, and the DaemonSets that run CNI DEL. */}}
{{- define "holdfast.platform" -}}
{{- if has .Values.platform (list "rke2" "k3s") }}
endpoint: /run/k3s/containerd/containerd.sock
{{- else if eq .Values.platform "k0s" }}
endpoint: /run/k0s/containerd.sock
{{- else if eq .Values.platform "microk8s" }}
endpoint: /var/snap/microk8s/common/run/containerd.sock
{{- else if eq .Values.platform "openshift" }}
endpoint: /run/crio/crio.sock
namespaces: [openshift-multus]
daemonSets: [openshift-multus/multus-additional-cni-plugins, openshift-multus/whereabouts-token-watcher]
{{- end }}
{{- if eq .Values.platform "rke2" }}
daemonSets: [kube-system/rke2-multus-rke2-whereabouts]
{{- end }}
{{- end }}

{{- define "holdfast.managerConfiguration" -}}
{{- $platform := include "holdfast.platform" . | fromYaml }}
{{- $configuration := deepCopy .Values.manager.configuration }}
{{- if and $platform.namespaces (eq (dig "whereabouts" "namespaces" list $configuration | toJson) `["kube-system"]`) }}
{{- $_ := set $configuration.whereabouts "namespaces" $platform.namespaces }}
{{- end }}
{{- if and $platform.daemonSets (eq (dig "unsafeReleases" "daemonSets" list $configuration | toJson) `["kube-system/whereabouts"]`) }}
{{- $_ := set $configuration.unsafeReleases "daemonSets" $platform.daemonSets }}
{{- end -}}
apiVersion: config.holdfast.dev/v1alpha1
kind: ManagerConfiguration
{{ toYaml $configuration }}
{{- end }}

{{/* The socket of the container runtime, as a path; empty if there is none. */}}
{{- define "holdfast.endpoint" -}}
{{- $platform := include "holdfast.platform" . | fromYaml }}
{{- $endpoint := dig "runtime" "endpoint" "" .Values.agent.configuration }}
{{- if and $platform.endpoint (eq $endpoint "/run/containerd/containerd.sock") }}{{ $endpoint = $platform.endpoint }}{{ end }}
{{- $endpoint }}
{{- end }}

{{- define "holdfast.agentConfiguration" -}}
{{- $configuration := deepCopy .Values.agent.configuration }}
{{- with include "holdfast.endpoint" . }}
{{- $_ := set $configuration.runtime "endpoint" . }}
{{- end }}
{{- if .Values.agent.audit.hostLocal }}
{{- $_ := set $configuration "stores" (merge ($configuration.stores | default dict) (dict "hostLocal" (dict "dataDirs" (list "/host/cni/networks")))) }}
{{- end }}
{{- if .Values.agent.audit.awsIPAMD }}
{{- $_ := set $configuration "stores" (merge ($configuration.stores | default dict) (dict "aws" (dict "checkpoint" "/host/aws-node/ipam.json"))) }}
{{- end -}}
apiVersion: config.holdfast.dev/v1alpha1
kind: AgentConfiguration
{{ toYaml $configuration }}
{{- end }}

{{/* A changed configuration has another name, and rolls the pods. */}}
{{- define "holdfast.managerConfigurationName" -}}
holdfast-manager-config-{{ include "holdfast.managerConfiguration" . | sha256sum | trunc 10 }}
{{- end }}

{{- define "holdfast.agentConfigurationName" -}}
holdfast-agent-config-{{ include "holdfast.agentConfiguration" . | sha256sum | trunc 10 }}
{{- end }}

{{/* What the pods of the manager's image have in common, beside their containers. */}}
{{- define "holdfast.managerPod" -}}
priorityClassName: {{ .Values.manager.priorityClassName }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.manager.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- $tolerations := .Values.manager.tolerations }}
{{- if .Values.manager.hostNetwork }}
{{- /* The node's network must work before it is called ready. */}}
{{- $tolerations = concat (list
  (dict "key" "node.kubernetes.io/not-ready" "operator" "Exists" "effect" "NoSchedule")
  (dict "key" "node.kubernetes.io/network-unavailable" "operator" "Exists" "effect" "NoSchedule")) $tolerations }}
{{- end }}
{{- with $tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.manager.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.manager.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- /* OpenShift gives each namespace IDs of its own, and restricted-v2 admits no others. */}}
  {{- if ne .Values.platform "openshift" }}
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{/* The manager's image in a container, and what that may do. */}}
{{- define "holdfast.managerContainer" -}}
image: {{ include "holdfast.image" (dict "root" . "image" .Values.manager.image "program" "manager") }}
{{- with .Values.manager.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
resources: {{- toYaml .Values.manager.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}
