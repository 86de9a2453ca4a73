"""Catalogue of pretrained weights: one module per model family, facts only; nothing here imports torch."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.weights.alexnet import *
    from flambeau.vision.weights.convnext import *
    from flambeau.vision.weights.deeplabv3 import *
    from flambeau.vision.weights.densenet import *
    from flambeau.vision.weights.digits import *
    from flambeau.vision.weights.efficientnet import *
    from flambeau.vision.weights.faster_rcnn import *
    from flambeau.vision.weights.fcn import *
    from flambeau.vision.weights.fcos import *
    from flambeau.vision.weights.googlenet import *
    from flambeau.vision.weights.inception import *
    from flambeau.vision.weights.keypoint_rcnn import *
    from flambeau.vision.weights.lraspp import *
    from flambeau.vision.weights.mask_rcnn import *
    from flambeau.vision.weights.maxvit import *
    from flambeau.vision.weights.mnasnet import *
    from flambeau.vision.weights.mobilenetv2 import *
    from flambeau.vision.weights.mobilenetv3 import *
    from flambeau.vision.weights.mvit import *
    from flambeau.vision.weights.quantized_googlenet import *
    from flambeau.vision.weights.quantized_inception import *
    from flambeau.vision.weights.quantized_mobilenetv2 import *
    from flambeau.vision.weights.quantized_mobilenetv3 import *
    from flambeau.vision.weights.quantized_resnet import *
    from flambeau.vision.weights.quantized_shufflenetv2 import *
    from flambeau.vision.weights.raft import *
    from flambeau.vision.weights.regnet import *
    from flambeau.vision.weights.resnet import *
    from flambeau.vision.weights.retinanet import *
    from flambeau.vision.weights.s3d import *
    from flambeau.vision.weights.shufflenetv2 import *
    from flambeau.vision.weights.squeezenet import *
    from flambeau.vision.weights.ssd import *
    from flambeau.vision.weights.ssdlite import *
    from flambeau.vision.weights.swin_transformer import *
    from flambeau.vision.weights.vgg import *
    from flambeau.vision.weights.video_resnet import *
    from flambeau.vision.weights.video_swin_transformer import *
    from flambeau.vision.weights.vision_transformer import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "digits": ("DigitCNN_Weights",),
        "alexnet": ("AlexNet_Weights",),
        "vgg": (
            "VGG11_BN_Weights",
            "VGG11_Weights",
            "VGG13_BN_Weights",
            "VGG13_Weights",
            "VGG16_BN_Weights",
            "VGG16_Weights",
            "VGG19_BN_Weights",
            "VGG19_Weights",
        ),
        "squeezenet": (
            "SqueezeNet1_0_Weights",
            "SqueezeNet1_1_Weights",
        ),
        "densenet": (
            "DenseNet121_Weights",
            "DenseNet161_Weights",
            "DenseNet169_Weights",
            "DenseNet201_Weights",
        ),
        "googlenet": ("GoogLeNet_Weights",),
        "inception": ("Inception_V3_Weights",),
        "mobilenetv2": ("MobileNet_V2_Weights",),
        "mobilenetv3": (
            "MobileNet_V3_Large_Weights",
            "MobileNet_V3_Small_Weights",
        ),
        "mnasnet": (
            "MNASNet0_5_Weights",
            "MNASNet0_75_Weights",
            "MNASNet1_0_Weights",
            "MNASNet1_3_Weights",
        ),
        "shufflenetv2": (
            "ShuffleNet_V2_X0_5_Weights",
            "ShuffleNet_V2_X1_0_Weights",
            "ShuffleNet_V2_X1_5_Weights",
            "ShuffleNet_V2_X2_0_Weights",
        ),
        "regnet": (
            "RegNet_X_1_6GF_Weights",
            "RegNet_X_3_2GF_Weights",
            "RegNet_X_8GF_Weights",
            "RegNet_X_16GF_Weights",
            "RegNet_X_32GF_Weights",
            "RegNet_X_400MF_Weights",
            "RegNet_X_800MF_Weights",
            "RegNet_Y_1_6GF_Weights",
            "RegNet_Y_3_2GF_Weights",
            "RegNet_Y_8GF_Weights",
            "RegNet_Y_16GF_Weights",
            "RegNet_Y_32GF_Weights",
            "RegNet_Y_128GF_Weights",
            "RegNet_Y_400MF_Weights",
            "RegNet_Y_800MF_Weights",
        ),
        "efficientnet": (
            "EfficientNet_B0_Weights",
            "EfficientNet_B1_Weights",
            "EfficientNet_B2_Weights",
            "EfficientNet_B3_Weights",
            "EfficientNet_B4_Weights",
            "EfficientNet_B5_Weights",
            "EfficientNet_B6_Weights",
            "EfficientNet_B7_Weights",
            "EfficientNet_V2_L_Weights",
            "EfficientNet_V2_M_Weights",
            "EfficientNet_V2_S_Weights",
        ),
        "convnext": (
            "ConvNeXt_Base_Weights",
            "ConvNeXt_Large_Weights",
            "ConvNeXt_Small_Weights",
            "ConvNeXt_Tiny_Weights",
        ),
        "resnet": (
            "ResNeXt50_32X4D_Weights",
            "ResNeXt101_32X8D_Weights",
            "ResNeXt101_64X4D_Weights",
            "ResNet18_Weights",
            "ResNet34_Weights",
            "ResNet50_Weights",
            "ResNet101_Weights",
            "ResNet152_Weights",
            "Wide_ResNet50_2_Weights",
            "Wide_ResNet101_2_Weights",
        ),
        "deeplabv3": (
            "DeepLabV3_MobileNet_V3_Large_Weights",
            "DeepLabV3_ResNet50_Weights",
            "DeepLabV3_ResNet101_Weights",
        ),
        "fcn": ("FCN_ResNet50_Weights", "FCN_ResNet101_Weights"),
        "lraspp": ("LRASPP_MobileNet_V3_Large_Weights",),
        "faster_rcnn": (
            "FasterRCNN_MobileNet_V3_Large_320_FPN_Weights",
            "FasterRCNN_MobileNet_V3_Large_FPN_Weights",
            "FasterRCNN_ResNet50_FPN_V2_Weights",
            "FasterRCNN_ResNet50_FPN_Weights",
        ),
        "fcos": ("FCOS_ResNet50_FPN_Weights",),
        "keypoint_rcnn": ("KeypointRCNN_ResNet50_FPN_Weights",),
        "mask_rcnn": ("MaskRCNN_ResNet50_FPN_V2_Weights", "MaskRCNN_ResNet50_FPN_Weights"),
        "retinanet": ("RetinaNet_ResNet50_FPN_V2_Weights", "RetinaNet_ResNet50_FPN_Weights"),
        "ssd": ("SSD300_VGG16_Weights",),
        "ssdlite": ("SSDLite320_MobileNet_V3_Large_Weights",),
        "vision_transformer": (
            "ViT_B_16_Weights",
            "ViT_B_32_Weights",
            "ViT_H_14_Weights",
            "ViT_L_16_Weights",
            "ViT_L_32_Weights",
        ),
        "swin_transformer": (
            "Swin_B_Weights",
            "Swin_S_Weights",
            "Swin_T_Weights",
            "Swin_V2_B_Weights",
            "Swin_V2_S_Weights",
            "Swin_V2_T_Weights",
        ),
        "maxvit": ("MaxVit_T_Weights",),
        "video_resnet": ("MC3_18_Weights", "R2Plus1D_18_Weights", "R3D_18_Weights"),
        "s3d": ("S3D_Weights",),
        "mvit": ("MViT_V1_B_Weights", "MViT_V2_S_Weights"),
        "video_swin_transformer": ("Swin3D_B_Weights", "Swin3D_S_Weights", "Swin3D_T_Weights"),
        "raft": ("Raft_Large_Weights", "Raft_Small_Weights"),
        "quantized_googlenet": ("GoogLeNet_QuantizedWeights",),
        "quantized_inception": ("Inception_V3_QuantizedWeights",),
        "quantized_mobilenetv2": ("MobileNet_V2_QuantizedWeights",),
        "quantized_mobilenetv3": ("MobileNet_V3_Large_QuantizedWeights",),
        "quantized_resnet": (
            "ResNeXt101_32X8D_QuantizedWeights",
            "ResNeXt101_64X4D_QuantizedWeights",
            "ResNet18_QuantizedWeights",
            "ResNet50_QuantizedWeights",
        ),
        "quantized_shufflenetv2": (
            "ShuffleNet_V2_X0_5_QuantizedWeights",
            "ShuffleNet_V2_X1_0_QuantizedWeights",
            "ShuffleNet_V2_X1_5_QuantizedWeights",
            "ShuffleNet_V2_X2_0_QuantizedWeights",
        ),
    },
    submodules=("categories",),
)
