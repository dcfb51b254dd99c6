"""The fields of .mlmodel files: the messages of a Core ML specification that the reader uses.

A line is a message and its fields: `name=number:type`, with `*` behind a repeated one and `^group` behind
one that excludes the others of its group. Enumerations are int32. `packed` is a repeated float that is read
as the bytes of its chunks, for a list of Python floats would take ten times the memory. Everything else in a
file is an unknown field, which is skipped.
"""

FIELDS = """
Model: specificationVersion=1:int32 description=2:ModelDescription isUpdatable=10:bool
    neuralNetwork=500:NeuralNetwork^Type
    neuralNetworkClassifier=403:NeuralNetworkClassifier^Type
    neuralNetworkRegressor=303:NeuralNetworkRegressor^Type pipelineClassifier=200:PipelineOf^Type
    pipelineRegressor=201:PipelineOf^Type pipeline=202:Pipeline^Type
PipelineOf: pipeline=1:Pipeline
Pipeline: models=1:Model* names=2:string*
ModelDescription: input=1:FeatureDescription* output=10:FeatureDescription* predictedFeatureName=11:string
    predictedProbabilitiesName=12:string trainingInput=50:FeatureDescription*
FeatureDescription: name=1:string shortDescription=2:string type=3:FeatureType
FeatureType: int64Type=1:Empty^Type doubleType=2:Empty^Type stringType=3:Empty^Type
    imageType=4:ImageFeatureType^Type multiArrayType=5:ArrayFeatureType^Type dictionaryType=6:Empty^Type
    sequenceType=7:Empty^Type isOptional=1000:bool
ImageFeatureType: width=1:int64 height=2:int64
    enumeratedSizes=21:ImageFeatureType.EnumeratedImageSizes^SizeFlexibility
    imageSizeRange=31:ImageFeatureType.ImageSizeRange^SizeFlexibility colorSpace=3:int32
ImageFeatureType.EnumeratedImageSizes: sizes=1:ImageFeatureType.ImageSize*
ImageFeatureType.ImageSize: width=1:uint64 height=2:uint64
ImageFeatureType.ImageSizeRange: widthRange=1:SizeRange heightRange=2:SizeRange
SizeRange: lowerBound=1:uint64 upperBound=2:int64
ArrayFeatureType: shape=1:int64* dataType=2:int32
    enumeratedShapes=21:ArrayFeatureType.EnumeratedShapes^ShapeFlexibility
    shapeRange=31:ArrayFeatureType.ShapeRange^ShapeFlexibility intDefaultValue=41:int32^defaultOptionalValue
    floatDefaultValue=51:float^defaultOptionalValue doubleDefaultValue=61:double^defaultOptionalValue
ArrayFeatureType.EnumeratedShapes: shapes=1:ArrayFeatureType.Shape*
ArrayFeatureType.Shape: shape=1:int64*
ArrayFeatureType.ShapeRange: sizeRanges=1:SizeRange*
NeuralNetwork: layers=1:NeuralNetworkLayer* preprocessing=2:NeuralNetworkPreprocessing*
    arrayInputShapeMapping=5:int32 imageInputShapeMapping=6:int32 updateParams=10:NetworkUpdateParameters
NeuralNetworkLayer: name=1:string input=2:string* output=3:string* isUpdatable=10:bool
    convolution=100:ConvolutionLayerParams^layer pooling=120:PoolingLayerParams^layer
    activation=130:ActivationParams^layer innerProduct=140:InnerProductLayerParams^layer
    embedding=150:EmbeddingLayerParams^layer batchnorm=160:BatchnormLayerParams^layer
    mvn=165:MeanVarianceNormalizeLayerParams^layer l2normalize=170:L2NormalizeLayerParams^layer
    softmax=175:Empty^layer lrn=180:LRNLayerParams^layer crop=190:CropLayerParams^layer
    padding=200:PaddingLayerParams^layer upsample=210:UpsampleLayerParams^layer
    resizeBilinear=211:ResizeBilinearLayerParams^layer cropResize=212:CropResizeLayerParams^layer
    unary=220:UnaryFunctionLayerParams^layer add=230:AddLayerParams^layer
    multiply=231:MultiplyLayerParams^layer average=240:Empty^layer scale=245:ScaleLayerParams^layer
    bias=250:BiasLayerParams^layer max=260:Empty^layer min=261:Empty^layer
    dot=270:DotProductLayerParams^layer reduce=280:ReduceLayerParams^layer
    loadConstant=290:LoadConstantLayerParams^layer reshape=300:ReshapeLayerParams^layer
    flatten=301:FlattenLayerParams^layer permute=310:PermuteLayerParams^layer
    concat=320:ConcatLayerParams^layer split=330:SplitLayerParams^layer
    sequenceRepeat=340:SequenceRepeatLayerParams^layer reorganizeData=345:ReorganizeDataLayerParams^layer
    slice=350:SliceLayerParams^layer simpleRecurrent=400:SimpleRecurrentLayerParams^layer
    gru=410:GRULayerParams^layer uniDirectionalLSTM=420:UniDirectionalLSTMLayerParams^layer
    biDirectionalLSTM=430:BiDirectionalLSTMLayerParams^layer custom=500:CustomLayerParams^layer
    copy=600:Empty^layer branch=605:BranchLayerParams^layer loop=615:LoopLayerParams^layer
    loopBreak=620:Empty^layer loopContinue=625:Empty^layer rangeStatic=635:RangeStaticLayerParams^layer
    rangeDynamic=640:RangeDynamicLayerParams^layer clip=660:ClipLayerParams^layer ceil=665:Empty^layer
    floor=670:Empty^layer sign=680:Empty^layer round=685:Empty^layer exp2=700:Empty^layer
    sin=710:Empty^layer cos=715:Empty^layer tan=720:Empty^layer asin=730:Empty^layer acos=735:Empty^layer
    atan=740:Empty^layer sinh=750:Empty^layer cosh=755:Empty^layer tanh=760:Empty^layer
    asinh=770:Empty^layer acosh=775:Empty^layer atanh=780:Empty^layer erf=790:Empty^layer
    gelu=795:GeluLayerParams^layer equal=815:EqualLayerParams^layer notEqual=820:NotEqualLayerParams^layer
    lessThan=825:LessThanLayerParams^layer lessEqual=827:LessEqualLayerParams^layer
    greaterThan=830:GreaterThanLayerParams^layer greaterEqual=832:GreaterEqualLayerParams^layer
    logicalOr=840:Empty^layer logicalXor=845:Empty^layer logicalNot=850:Empty^layer
    logicalAnd=855:Empty^layer modBroadcastable=865:Empty^layer minBroadcastable=870:Empty^layer
    maxBroadcastable=875:Empty^layer addBroadcastable=880:Empty^layer powBroadcastable=885:Empty^layer
    divideBroadcastable=890:Empty^layer floorDivBroadcastable=895:Empty^layer
    multiplyBroadcastable=900:Empty^layer subtractBroadcastable=905:Empty^layer
    tile=920:TileLayerParams^layer stack=925:StackLayerParams^layer gather=930:GatherLayerParams^layer
    scatter=935:ScatterLayerParams^layer gatherND=940:Empty^layer scatterND=945:ScatterNDLayerParams^layer
    softmaxND=950:SoftmaxNDLayerParams^layer gatherAlongAxis=952:GatherAlongAxisLayerParams^layer
    scatterAlongAxis=954:ScatterAlongAxisLayerParams^layer reverse=960:ReverseLayerParams^layer
    reverseSeq=965:ReverseSeqLayerParams^layer splitND=975:SplitNDLayerParams^layer
    concatND=980:ConcatNDLayerParams^layer transpose=985:TransposeLayerParams^layer
    sliceStatic=995:SliceStaticLayerParams^layer sliceDynamic=1000:SliceDynamicLayerParams^layer
    slidingWindows=1005:SlidingWindowsLayerParams^layer topK=1015:TopKLayerParams^layer
    argMin=1020:ArgMinLayerParams^layer argMax=1025:ArgMaxLayerParams^layer
    embeddingND=1040:EmbeddingNDLayerParams^layer batchedMatmul=1045:BatchedMatMulLayerParams^layer
    getShape=1065:Empty^layer loadConstantND=1070:LoadConstantNDLayerParams^layer
    fillLike=1080:FillLikeLayerParams^layer fillStatic=1085:FillStaticLayerParams^layer
    fillDynamic=1090:FillDynamicLayerParams^layer broadcastToLike=1100:Empty^layer
    broadcastToStatic=1105:BroadcastToStaticLayerParams^layer broadcastToDynamic=1110:Empty^layer
    squeeze=1120:SqueezeLayerParams^layer expandDims=1125:ExpandDimsLayerParams^layer
    flattenTo2D=1130:FlattenTo2DLayerParams^layer reshapeLike=1135:Empty^layer
    reshapeStatic=1140:ReshapeStaticLayerParams^layer reshapeDynamic=1145:Empty^layer
    rankPreservingReshape=1150:RankPreservingReshapeLayerParams^layer
    constantPad=1155:ConstantPaddingLayerParams^layer
    randomNormalLike=1170:RandomNormalLikeLayerParams^layer
    randomNormalStatic=1175:RandomNormalStaticLayerParams^layer
    randomNormalDynamic=1180:RandomNormalDynamicLayerParams^layer
    randomUniformLike=1190:RandomUniformLikeLayerParams^layer
    randomUniformStatic=1195:RandomUniformStaticLayerParams^layer
    randomUniformDynamic=1200:RandomUniformDynamicLayerParams^layer
    randomBernoulliLike=1210:RandomBernoulliLikeLayerParams^layer
    randomBernoulliStatic=1215:RandomBernoulliStaticLayerParams^layer
    randomBernoulliDynamic=1220:RandomBernoulliDynamicLayerParams^layer
    categoricalDistribution=1230:CategoricalDistributionLayerParams^layer
    reduceL1=1250:ReduceL1LayerParams^layer reduceL2=1255:ReduceL2LayerParams^layer
    reduceMax=1260:ReduceMaxLayerParams^layer reduceMin=1265:ReduceMinLayerParams^layer
    reduceSum=1270:ReduceSumLayerParams^layer reduceProd=1275:ReduceProdLayerParams^layer
    reduceMean=1280:ReduceMeanLayerParams^layer reduceLogSum=1285:ReduceLogSumLayerParams^layer
    reduceSumSquare=1290:ReduceSumSquareLayerParams^layer
    reduceLogSumExp=1295:ReduceLogSumExpLayerParams^layer whereNonZero=1313:Empty^layer
    matrixBandPart=1315:MatrixBandPartLayerParams^layer
    lowerTriangular=1320:LowerTriangularLayerParams^layer
    upperTriangular=1325:UpperTriangularLayerParams^layer whereBroadcastable=1330:Empty^layer
    layerNormalization=1350:LayerNormalizationLayerParams^layer
    NonMaximumSuppression=1400:NonMaximumSuppressionLayerParams^layer oneHot=1450:OneHotLayerParams^layer
    cumSum=1455:CumSumLayerParams^layer clampedReLU=1460:ClampedReLULayerParams^layer
    argSort=1461:ArgSortLayerParams^layer pooling3d=1465:Pooling3DLayerParams^layer
    globalPooling3d=1466:GlobalPooling3DLayerParams^layer sliceBySize=1470:SliceBySizeLayerParams^layer
    convolution3d=1471:Convolution3DLayerParams^layer
ConvolutionLayerParams: outputChannels=1:uint64 kernelChannels=2:uint64 nGroups=10:uint64
    kernelSize=20:uint64* stride=30:uint64* dilationFactor=40:uint64*
    valid=50:ValidPadding^ConvolutionPaddingType same=51:SamePadding^ConvolutionPaddingType
    isDeconvolution=60:bool hasBias=70:bool weights=90:WeightParams bias=91:WeightParams
    outputShape=100:uint64*
ValidPadding: paddingAmounts=1:BorderAmounts
BorderAmounts: borderAmounts=10:BorderAmounts.EdgeSizes*
BorderAmounts.EdgeSizes: startEdgeSize=1:uint64 endEdgeSize=2:uint64
SamePadding: asymmetryMode=1:int32
WeightParams: floatValue=1:packed float16Value=2:bytes rawValue=30:bytes int8RawValue=31:bytes
    quantization=40:QuantizationParams isUpdatable=50:bool
QuantizationParams: numberOfBits=1:uint64 linearQuantization=101:LinearQuantizationParams^QuantizationType
    lookupTableQuantization=102:LookUpTableQuantizationParams^QuantizationType
LinearQuantizationParams: scale=1:float* bias=2:float*
LookUpTableQuantizationParams: floatValue=1:float*
PoolingLayerParams: type=1:int32 kernelSize=10:uint64* stride=20:uint64*
    valid=30:ValidPadding^PoolingPaddingType same=31:SamePadding^PoolingPaddingType
    includeLastPixel=32:PoolingLayerParams.ValidCompletePadding^PoolingPaddingType
    avgPoolExcludePadding=50:bool globalPooling=60:bool
PoolingLayerParams.ValidCompletePadding: paddingAmounts=10:uint64*
ActivationParams: linear=5:ActivationLinear^NonlinearityType ReLU=10:Empty^NonlinearityType
    leakyReLU=15:ActivationLeakyReLU^NonlinearityType
    thresholdedReLU=20:ActivationThresholdedReLU^NonlinearityType PReLU=25:ActivationPReLU^NonlinearityType
    tanh=30:Empty^NonlinearityType scaledTanh=31:ActivationScaledTanh^NonlinearityType
    sigmoid=40:Empty^NonlinearityType sigmoidHard=41:ActivationSigmoidHard^NonlinearityType
    ELU=50:ActivationELU^NonlinearityType softsign=60:Empty^NonlinearityType
    softplus=70:Empty^NonlinearityType parametricSoftplus=71:ActivationParametricSoftplus^NonlinearityType
ActivationLinear: alpha=1:float beta=2:float
ActivationLeakyReLU: alpha=1:float
ActivationThresholdedReLU: alpha=1:float
ActivationPReLU: alpha=1:WeightParams
ActivationScaledTanh: alpha=1:float beta=2:float
ActivationSigmoidHard: alpha=1:float beta=2:float
ActivationELU: alpha=1:float
ActivationParametricSoftplus: alpha=1:WeightParams beta=2:WeightParams
InnerProductLayerParams: inputChannels=1:uint64 outputChannels=2:uint64 hasBias=10:bool
    weights=20:WeightParams bias=21:WeightParams int8DynamicQuantize=22:bool
EmbeddingLayerParams: inputDim=1:uint64 outputChannels=2:uint64 hasBias=10:bool weights=20:WeightParams
    bias=21:WeightParams
BatchnormLayerParams: channels=1:uint64 computeMeanVar=5:bool instanceNormalization=6:bool epsilon=10:float
    gamma=15:WeightParams beta=16:WeightParams mean=17:WeightParams variance=18:WeightParams
MeanVarianceNormalizeLayerParams: acrossChannels=1:bool normalizeVariance=2:bool epsilon=3:float
L2NormalizeLayerParams: epsilon=1:float
LRNLayerParams: alpha=1:float beta=2:float localSize=3:uint64 k=4:float
CropLayerParams: cropAmounts=1:BorderAmounts offset=5:uint64*
PaddingLayerParams: constant=1:PaddingLayerParams.PaddingConstant^PaddingType reflection=2:Empty^PaddingType
    replication=3:Empty^PaddingType paddingAmounts=10:BorderAmounts
PaddingLayerParams.PaddingConstant: value=1:float
UpsampleLayerParams: scalingFactor=1:uint64* fractionalScalingFactor=7:float* mode=5:int32
    linearUpsampleMode=6:int32
ResizeBilinearLayerParams: targetSize=1:uint64* mode=2:SamplingMode
SamplingMode: samplingMethod=1:int32
CropResizeLayerParams: targetSize=1:uint64* normalizedCoordinates=2:bool mode=3:SamplingMode
    boxIndicesMode=4:BoxCoordinatesMode spatialScale=5:float
BoxCoordinatesMode: boxMode=1:int32
UnaryFunctionLayerParams: type=1:int32 alpha=2:float epsilon=3:float shift=4:float scale=5:float
AddLayerParams: alpha=1:float
MultiplyLayerParams: alpha=1:float
ScaleLayerParams: shapeScale=1:uint64* scale=2:WeightParams hasBias=3:bool shapeBias=4:uint64*
    bias=5:WeightParams
BiasLayerParams: shape=1:uint64* bias=2:WeightParams
DotProductLayerParams: cosineSimilarity=1:bool
ReduceLayerParams: mode=1:int32 epsilon=2:float axis=3:int32
LoadConstantLayerParams: shape=1:uint64* data=2:WeightParams
ReshapeLayerParams: targetShape=1:int64* mode=2:int32
FlattenLayerParams: mode=1:int32
PermuteLayerParams: axis=1:uint64*
ConcatLayerParams: sequenceConcat=100:bool
SplitLayerParams: nOutputs=1:uint64
SequenceRepeatLayerParams: nRepetitions=1:uint64
ReorganizeDataLayerParams: mode=1:int32 blockSize=2:uint64
SliceLayerParams: startIndex=1:int64 endIndex=2:int64 stride=3:uint64 axis=4:int32
SimpleRecurrentLayerParams: inputVectorSize=1:uint64 outputVectorSize=2:uint64
    activation=10:ActivationParams sequenceOutput=15:bool hasBiasVector=20:bool weightMatrix=30:WeightParams
    recursionMatrix=31:WeightParams biasVector=32:WeightParams reverseInput=100:bool
GRULayerParams: inputVectorSize=1:uint64 outputVectorSize=2:uint64 activations=10:ActivationParams*
    sequenceOutput=15:bool hasBiasVectors=20:bool updateGateWeightMatrix=30:WeightParams
    resetGateWeightMatrix=31:WeightParams outputGateWeightMatrix=32:WeightParams
    updateGateRecursionMatrix=50:WeightParams resetGateRecursionMatrix=51:WeightParams
    outputGateRecursionMatrix=52:WeightParams updateGateBiasVector=70:WeightParams
    resetGateBiasVector=71:WeightParams outputGateBiasVector=72:WeightParams reverseInput=100:bool
UniDirectionalLSTMLayerParams: inputVectorSize=1:uint64 outputVectorSize=2:uint64
    activations=10:ActivationParams* params=15:LSTMParams weightParams=20:LSTMWeightParams
    reverseInput=100:bool
LSTMParams: sequenceOutput=10:bool hasBiasVectors=20:bool forgetBias=30:bool hasPeepholeVectors=40:bool
    coupledInputAndForgetGate=50:bool cellClipThreshold=60:float
LSTMWeightParams: inputGateWeightMatrix=1:WeightParams forgetGateWeightMatrix=2:WeightParams
    blockInputWeightMatrix=3:WeightParams outputGateWeightMatrix=4:WeightParams
    inputGateRecursionMatrix=20:WeightParams forgetGateRecursionMatrix=21:WeightParams
    blockInputRecursionMatrix=22:WeightParams outputGateRecursionMatrix=23:WeightParams
    inputGateBiasVector=40:WeightParams forgetGateBiasVector=41:WeightParams
    blockInputBiasVector=42:WeightParams outputGateBiasVector=43:WeightParams
    inputGatePeepholeVector=60:WeightParams forgetGatePeepholeVector=61:WeightParams
    outputGatePeepholeVector=62:WeightParams
BiDirectionalLSTMLayerParams: inputVectorSize=1:uint64 outputVectorSize=2:uint64
    activationsForwardLSTM=10:ActivationParams* activationsBackwardLSTM=11:ActivationParams*
    params=15:LSTMParams weightParams=20:LSTMWeightParams*
CustomLayerParams: className=10:string weights=20:WeightParams*
    parameters=30:CustomLayerParams.ParametersEntry* description=40:string
CustomLayerParams.ParametersEntry: key=1:string value=2:CustomLayerParams.CustomLayerParamValue
CustomLayerParams.CustomLayerParamValue: doubleValue=10:double^value stringValue=20:string^value
    intValue=30:int32^value longValue=40:int64^value boolValue=50:bool^value
BranchLayerParams: ifBranch=1:NeuralNetwork elseBranch=2:NeuralNetwork
LoopLayerParams: maxLoopIterations=1:uint64 conditionVar=2:string conditionNetwork=3:NeuralNetwork
    bodyNetwork=4:NeuralNetwork
RangeStaticLayerParams: endValue=1:float startValue=2:float stepSizeValue=3:float
RangeDynamicLayerParams: startValue=2:float stepSizeValue=3:float
ClipLayerParams: minVal=1:float maxVal=2:float
GeluLayerParams: mode=1:int32
EqualLayerParams: alpha=1:float
NotEqualLayerParams: alpha=1:float
LessThanLayerParams: alpha=2:float
LessEqualLayerParams: alpha=2:float
GreaterThanLayerParams: alpha=2:float
GreaterEqualLayerParams: alpha=2:float
TileLayerParams: reps=1:uint64*
StackLayerParams: axis=1:int64
GatherLayerParams: axis=1:int64
ScatterLayerParams: axis=1:int64 mode=2:int32
ScatterNDLayerParams: mode=1:int32
SoftmaxNDLayerParams: axis=1:int64
GatherAlongAxisLayerParams: axis=1:int64
ScatterAlongAxisLayerParams: axis=1:int64 mode=2:int32
ReverseLayerParams: reverseDim=1:bool*
ReverseSeqLayerParams: batchAxis=1:int64 sequenceAxis=2:int64
SplitNDLayerParams: axis=1:int64 numSplits=2:uint64 splitSizes=3:uint64*
ConcatNDLayerParams: axis=1:int64 interleave=2:bool
TransposeLayerParams: axes=1:uint64*
SliceStaticLayerParams: beginIds=1:int64* beginMasks=2:bool* endIds=3:int64* endMasks=4:bool*
    strides=5:int64* squeezeMasks=6:bool*
SliceDynamicLayerParams: beginMasks=2:bool* endIds=3:int64* endMasks=4:bool* strides=5:int64*
    squeezeMasks=6:bool*
SlidingWindowsLayerParams: axis=1:int64 windowSize=2:uint64 step=3:uint64
TopKLayerParams: axis=1:int64 K=2:uint64 useBottomK=3:bool
ArgMinLayerParams: axis=1:int64 removeDim=2:bool
ArgMaxLayerParams: axis=1:int64 removeDim=2:bool
EmbeddingNDLayerParams: vocabSize=1:uint64 embeddingSize=2:uint64 hasBias=3:bool weights=20:WeightParams
    bias=21:WeightParams
BatchedMatMulLayerParams: transposeA=1:bool transposeB=2:bool weightMatrixFirstDimension=5:uint64
    weightMatrixSecondDimension=6:uint64 hasBias=7:bool weights=8:WeightParams bias=9:WeightParams
    int8DynamicQuantize=10:bool
LoadConstantNDLayerParams: shape=1:uint64* data=2:WeightParams
FillLikeLayerParams: value=1:float
FillStaticLayerParams: value=1:float targetShape=2:uint64*
FillDynamicLayerParams: value=1:float
BroadcastToStaticLayerParams: targetShape=1:uint64*
SqueezeLayerParams: axes=1:int64* squeezeAll=2:bool
ExpandDimsLayerParams: axes=1:int64*
FlattenTo2DLayerParams: axis=1:int64
ReshapeStaticLayerParams: targetShape=1:int64*
RankPreservingReshapeLayerParams: targetShape=1:int64*
ConstantPaddingLayerParams: value=1:float padAmounts=2:uint64* padToGivenOutputSizeMode=3:bool
RandomNormalLikeLayerParams: seed=1:int64 mean=2:float stdDev=3:float
RandomNormalStaticLayerParams: seed=1:int64 mean=2:float stdDev=3:float outputShape=4:uint64*
RandomNormalDynamicLayerParams: seed=1:int64 mean=2:float stdDev=3:float
RandomUniformLikeLayerParams: seed=1:int64 minVal=2:float maxVal=3:float
RandomUniformStaticLayerParams: seed=1:int64 minVal=2:float maxVal=3:float outputShape=4:uint64*
RandomUniformDynamicLayerParams: seed=1:int64 minVal=2:float maxVal=3:float
RandomBernoulliLikeLayerParams: seed=1:int64 prob=2:float
RandomBernoulliStaticLayerParams: seed=1:int64 prob=2:float outputShape=3:uint64*
RandomBernoulliDynamicLayerParams: seed=1:int64 prob=2:float
CategoricalDistributionLayerParams: seed=1:int64 numSamples=2:int64 isLogits=3:bool eps=4:float
    temperature=5:float
ReduceL1LayerParams: axes=1:int64* keepDims=2:bool reduceAll=3:bool
ReduceL2LayerParams: axes=1:int64* keepDims=2:bool reduceAll=3:bool
ReduceMaxLayerParams: axes=1:int64* keepDims=2:bool reduceAll=3:bool
ReduceMinLayerParams: axes=1:int64* keepDims=2:bool reduceAll=3:bool
ReduceSumLayerParams: axes=1:int64* keepDims=2:bool reduceAll=3:bool
ReduceProdLayerParams: axes=1:int64* keepDims=2:bool reduceAll=3:bool
ReduceMeanLayerParams: axes=1:int64* keepDims=2:bool reduceAll=3:bool
ReduceLogSumLayerParams: axes=1:int64* keepDims=2:bool reduceAll=3:bool
ReduceSumSquareLayerParams: axes=1:int64* keepDims=2:bool reduceAll=3:bool
ReduceLogSumExpLayerParams: axes=1:int64* keepDims=2:bool reduceAll=3:bool
MatrixBandPartLayerParams: numLower=1:int64 numUpper=2:int64
LowerTriangularLayerParams: k=1:int64
UpperTriangularLayerParams: k=1:int64
LayerNormalizationLayerParams: normalizedShape=1:int64* eps=2:float gamma=3:WeightParams beta=4:WeightParams
NonMaximumSuppressionLayerParams: iouThreshold=1:float scoreThreshold=2:float maxBoxes=3:uint64
    perClassSuppression=4:bool
OneHotLayerParams: oneHotVectorSize=1:uint64 axis=2:int64 onValue=3:float offValue=4:float
CumSumLayerParams: axis=1:int64 excludeFinalSum=2:bool reverse=3:bool
ClampedReLULayerParams: alpha=1:float beta=2:float
ArgSortLayerParams: axis=1:int64 descending=2:bool
Pooling3DLayerParams: type=1:int32 kernelDepth=2:int32 kernelHeight=3:int32 kernelWidth=4:int32
    strideDepth=5:int32 strideHeight=6:int32 strideWidth=7:int32 paddingType=15:int32
    customPaddingFront=8:int32 customPaddingBack=9:int32 customPaddingTop=10:int32
    customPaddingBottom=11:int32 customPaddingLeft=12:int32 customPaddingRight=13:int32
    countExcludePadding=14:bool
GlobalPooling3DLayerParams: type=1:int32
SliceBySizeLayerParams: size=2:int64 axis=3:int64
Convolution3DLayerParams: outputChannels=1:int32 inputChannels=2:int32 nGroups=10:int32 kernelDepth=20:int32
    kernelHeight=21:int32 kernelWidth=22:int32 strideDepth=31:int32 strideHeight=32:int32
    strideWidth=33:int32 dilationDepth=40:int32 dilationHeight=41:int32 dilationWidth=42:int32
    hasBias=50:bool weights=60:WeightParams bias=61:WeightParams paddingType=70:int32
    customPaddingFront=80:int32 customPaddingBack=81:int32 customPaddingTop=82:int32
    customPaddingBottom=83:int32 customPaddingLeft=84:int32 customPaddingRight=85:int32
    isDeconvolution=86:bool outputShape=87:uint64*
NeuralNetworkPreprocessing: featureName=1:string scaler=10:NeuralNetworkImageScaler^preprocessor
    meanImage=11:NeuralNetworkMeanImage^preprocessor
NeuralNetworkImageScaler: channelScale=10:float blueBias=20:float greenBias=21:float redBias=22:float
    grayBias=30:float
NeuralNetworkMeanImage: meanImage=1:packed
Int64Set: values=1:int64*
NeuralNetworkClassifier: layers=1:NeuralNetworkLayer* preprocessing=2:NeuralNetworkPreprocessing*
    arrayInputShapeMapping=5:int32 imageInputShapeMapping=6:int32 updateParams=10:NetworkUpdateParameters
    stringClassLabels=100:StringVector^ClassLabels int64ClassLabels=101:Int64Vector^ClassLabels
    labelProbabilityLayerName=200:string
StringVector: vector=1:string*
Int64Vector: vector=1:int64*
NeuralNetworkRegressor: layers=1:NeuralNetworkLayer* preprocessing=2:NeuralNetworkPreprocessing*
    arrayInputShapeMapping=5:int32 imageInputShapeMapping=6:int32 updateParams=10:NetworkUpdateParameters
NetworkUpdateParameters: lossLayers=1:LossLayer* optimizer=2:Optimizer epochs=3:Int64Parameter
    shuffle=10:BoolParameter seed=20:Int64Parameter
LossLayer: name=1:string
    categoricalCrossEntropyLossLayer=10:CategoricalCrossEntropyLossLayer^LossLayerType
    meanSquaredErrorLossLayer=11:MeanSquaredErrorLossLayer^LossLayerType
CategoricalCrossEntropyLossLayer: input=1:string target=2:string
MeanSquaredErrorLossLayer: input=1:string target=2:string
Optimizer: sgdOptimizer=10:SGDOptimizer^OptimizerType adamOptimizer=11:AdamOptimizer^OptimizerType
SGDOptimizer: learningRate=1:DoubleParameter miniBatchSize=2:Int64Parameter momentum=3:DoubleParameter
AdamOptimizer: learningRate=1:DoubleParameter miniBatchSize=2:Int64Parameter beta1=3:DoubleParameter
    beta2=4:DoubleParameter eps=5:DoubleParameter
DoubleParameter: defaultValue=1:double range=10:DoubleRange^AllowedValues
DoubleRange: minValue=1:double maxValue=2:double
Int64Parameter: defaultValue=1:int64 range=10:Int64Range^AllowedValues set=11:Int64Set^AllowedValues
Int64Range: minValue=1:int64 maxValue=2:int64
BoolParameter: defaultValue=1:bool
"""
